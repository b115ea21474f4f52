"""The content of events, or the error of a call, from its items."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from hubd.errors import ExecutionError, from_items

Item = dict[str, Any]


class ContentReader:
    """Reads the items of one call. Items of unknown types are ignored."""

    def __init__(self) -> None:
        # The last guidance item. The one before an error belongs to the error.
        self._guidance: Item | None = None

    def read(self, item: Item) -> dict[str, Any] | None:
        """Return the content of a data item; None for any other item.

        Raises:
            HubError: The item is an error.
        """
        kind = item.get("type")
        if kind == "data":
            content: dict[str, Any] = item["content"]
            return content
        if kind == "guidance":
            self._guidance = item
        elif kind == "error":
            raise from_items(item, self._guidance)
        return None


async def contents(items: AsyncGenerator[Item, None]) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the contents of a call's data items.

    Raises:
        HubError: The error of the call.
    """
    reader = ContentReader()
    async with aclosing(items):
        async for item in items:
            if (content := reader.read(item)) is not None:
                yield content


def only(method: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the only event of a call.

    Raises:
        ExecutionError: There is not exactly one.
    """
    if len(events) != 1:
        raise ExecutionError(
            f"{method} sent {len(events)} events, not one", suggestion="Read them with call()"
        )
    return events[0]
