"""Long lists in pages. A cursor is the key of the last sent entry, which may be deleted by now."""

import base64
from collections.abc import Sequence
from typing import Final, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams

PAGE: Final = 200
# Marks the cursors that the hub has issued.
_MARK: Final = b"after "

T = TypeVar("T")


def page_of(
    entries: Sequence[T], key: str, params: PaginatedRequestParams | None
) -> tuple[list[T], str | None]:
    """Return the entries after the cursor of a request, sorted by a key, and the next cursor.

    Raises:
        MCPError: The hub has not issued the cursor.
    """
    ordered = sorted(entries, key=lambda entry: str(getattr(entry, key)))
    if params is not None and params.cursor is not None:
        last = _last_sent(params.cursor)
        ordered = [entry for entry in ordered if str(getattr(entry, key)) > last]
    page = ordered[:PAGE]
    return page, _cursor(str(getattr(page[-1], key))) if len(ordered) > PAGE else None


def _cursor(last: str) -> str:
    return base64.urlsafe_b64encode(_MARK + last.encode()).decode()


def _last_sent(cursor: str) -> str:
    try:
        decoded = base64.b64decode(cursor.encode(), b"-_", validate=True)
        if decoded.startswith(_MARK):
            return decoded.removeprefix(_MARK).decode()
    except ValueError:
        pass
    raise MCPError(INVALID_PARAMS, "invalid cursor: use the nextCursor of an earlier page")
