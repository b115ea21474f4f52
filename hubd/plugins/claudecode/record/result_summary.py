"""The fields of a chat's result line for its last event."""

import json
from collections.abc import Sequence
from typing import Any, Final

from hubd.plugins.claudecode.protocol.messages import ResultLine

# Fields of the result line that are left out of the last event of a chat.
_NOT_IN_EVENT: Final = frozenset(("type", "result", "uuid", "session_id"))


def summary(results: Sequence[ResultLine]) -> dict[str, Any]:
    """Return the fields of the result line for the last event of a chat.

    The text of the answer is left out, because the `content` events have it. If there are several
    result lines, the fields are those of the newest, with the denied tool calls of all.
    """
    fields = {name: value for name, value in results[-1].raw.items() if name not in _NOT_IN_EVENT}
    lists = [result.raw.get("permission_denials") for result in results]
    denials = [entry for each in lists if isinstance(each, list) for entry in each]
    distinct = {json.dumps(entry, sort_keys=True): entry for entry in denials}
    if distinct:
        fields["permission_denials"] = [*distinct.values()]
    return fields
