"""Read one line of the program's output as one message. No I/O, no exceptions.

The program's stream-json has no published contract and grows with each release. Only the known
fields of a line are read, and `raw` has the complete parsed object. A line of an unexpected shape
is `Other`, not an error. accumulator.py combines the lines.
"""

from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

from hubd.wire.lazy_pattern import lazy_pattern

# Characters of an unreadable line that the reason quotes.
EXCERPT_CHARS: Final = 200


class Init(NamedTuple):
    """`system/init`: the session, the model and the tools; printed for each turn."""

    session_id: str
    model: str | None
    cwd: str | None
    tools: tuple[str, ...]
    raw: dict[str, Any]


class StreamEvent(NamedTuple):
    """An event of the API's stream; printed if partial messages are on."""

    event_type: str
    event: dict[str, Any]
    # The id of its message, if the line has one.
    message_id: str | None
    parent_tool_use_id: str | None
    raw: dict[str, Any]


class AssistantLine(NamedTuple):
    """Complete blocks of an assistant message: mostly one block, in several lines per message."""

    message_id: str
    model: str | None
    blocks: tuple[dict[str, Any], ...]
    usage: dict[str, Any]
    stop_reason: str | None
    parent_tool_use_id: str | None
    uuid: str | None
    # True if the turn was interrupted during the last of these blocks.
    aborted: bool
    raw: dict[str, Any]


class UserLine(NamedTuple):
    """Tool results, or text of the user or of the program itself for the model."""

    blocks: tuple[dict[str, Any], ...]
    parent_tool_use_id: str | None
    uuid: str | None
    raw: dict[str, Any]


class ResultLine(NamedTuple):
    """The end of a turn, of which there may be none or several.

    `is_error` decides whether the turn failed: `subtype` is "success" for an API error too.
    """

    subtype: str | None
    is_error: bool
    result: str | None
    session_id: str | None
    usage: dict[str, Any]
    cost_usd: float | None
    num_turns: int | None
    api_error_status: int | None
    terminal_reason: str | None
    raw: dict[str, Any]


class ControlRequest(NamedTuple):
    """A request of the program to its driver, such as an approval. The program waits."""

    request_id: str
    subtype: str
    request: dict[str, Any]
    raw: dict[str, Any]


class ControlResponse(NamedTuple):
    """The program's answer to a request of its driver."""

    request_id: str
    subtype: str
    response: dict[str, Any]
    raw: dict[str, Any]


class Other(NamedTuple):
    """Any other line. `event_type` is the type, with the subtype after a slash."""

    event_type: str
    raw: dict[str, Any]


class Broken(NamedTuple):
    """A line that is not a JSON object."""

    reason: str


Message = (
    Init
    | StreamEvent
    | AssistantLine
    | UserLine
    | ResultLine
    | ControlRequest
    | ControlResponse
    | Other
    | Broken
)


def read_line(line: bytes) -> Message:
    """Return the message of one line, with or without its line end."""
    try:
        raw = from_json(line, allow_inf_nan=False)
    except ValueError:
        try:
            raw = from_json(_mended(line), allow_inf_nan=False)
        except ValueError as error:
            return Broken(f"not JSON, {error}: {_excerpt(line)}")
    if not isinstance(raw, dict):
        return Broken(f"JSON, but not an object: {_excerpt(line)}")
    return _read(raw) or Other(event_type(raw), raw)


def event_type(raw: dict[str, Any]) -> str:
    """Return the type of a line: "assistant", "system/api_retry", "unknown"."""
    kind, subtype = raw.get("type"), raw.get("subtype")
    if not isinstance(kind, str):
        return "unknown"
    return f"{kind}/{subtype}" if isinstance(subtype, str) else kind


def output_text(content: object) -> str:
    """Return the content of a tool result as text; other content as its type in brackets."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part_text(part) for part in content)
    return to_json(content).decode()


def _read(raw: dict[str, Any]) -> Message | None:
    """Return the message of a line, if the line has an expected shape."""
    match raw:
        case {"type": "stream_event", "event": {"type": str(kind)}}:
            return _stream_event(raw, kind, raw["event"])
        case {"type": "assistant", "message": {"content": list() | str()}}:
            return _assistant(raw, raw["message"])
        case {"type": "user", "message": {"content": list() | str() as content}}:
            blocks = _blocks(content)
            if blocks is not None:
                parent, uuid = _text(raw.get("parent_tool_use_id")), _text(raw.get("uuid"))
                return UserLine(blocks, parent, uuid, raw)
        case {"type": "system", "subtype": "init", "session_id": str(session_id)}:
            return _init(raw, session_id)
        case {"type": "result"}:
            return _result(raw)
        case {
            "type": "control_request",
            "request_id": str(request_id),
            "request": {"subtype": str(subtype)},
        }:
            return ControlRequest(request_id, subtype, raw["request"], raw)
        case {
            "type": "control_response",
            "response": {"request_id": str(request_id), "subtype": str(subtype)},
        }:
            return ControlResponse(request_id, subtype, raw["response"], raw)
    return None


def _init(raw: dict[str, Any], session_id: str) -> Init:
    tools = raw.get("tools")
    listed = tools if isinstance(tools, list) else []
    names = tuple(tool for tool in listed if isinstance(tool, str))
    return Init(session_id, _text(raw.get("model")), _text(raw.get("cwd")), names, raw)


def _stream_event(raw: dict[str, Any], kind: str, event: dict[str, Any]) -> StreamEvent:
    message = event.get("message")
    message_id = message.get("id") if isinstance(message, dict) else None
    return StreamEvent(
        event_type=kind,
        event=event,
        message_id=_text(message_id) or _text(raw.get("api_message_id")),
        parent_tool_use_id=_text(raw.get("parent_tool_use_id")),
        raw=raw,
    )


def _assistant(raw: dict[str, Any], message: dict[str, Any]) -> AssistantLine | None:
    blocks = _blocks(message["content"])
    # Without a message id, each line is a message.
    message_id = _text(message.get("id")) or _text(raw.get("uuid"))
    if not blocks or message_id is None:
        return None
    return AssistantLine(
        message_id=message_id,
        model=_text(message.get("model")),
        blocks=blocks,
        usage=_object(message.get("usage")),
        stop_reason=_text(message.get("stop_reason")),
        parent_tool_use_id=_text(raw.get("parent_tool_use_id")),
        uuid=_text(raw.get("uuid")),
        aborted=raw.get("aborted") is True,
        raw=raw,
    )


def _result(raw: dict[str, Any]) -> ResultLine:
    result = raw.get("result")
    return ResultLine(
        subtype=_text(raw.get("subtype")),
        is_error=raw.get("is_error") is True,
        result=result if isinstance(result, str) else None,
        session_id=_text(raw.get("session_id")),
        usage=_object(raw.get("usage")),
        cost_usd=_number(raw.get("total_cost_usd")),
        num_turns=_integer(raw.get("num_turns")),
        api_error_status=_integer(raw.get("api_error_status")),
        terminal_reason=_text(raw.get("terminal_reason")),
        raw=raw,
    )


def _blocks(content: list[Any] | str) -> tuple[dict[str, Any], ...] | None:
    """Return the blocks of a message; None if one of them is not an object."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return tuple(content) if all(isinstance(block, dict) for block in content) else None


def _part_text(part: object) -> str:
    match part:
        case str():
            return part
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind), "source": {"media_type": str(media), "data": str(data)}}:
            # Base64: four characters for three bytes.
            return f"[{kind} {media}, {len(data.rstrip('=')) * 3 // 4} bytes]"
        case {"type": str(kind)}:
            return f"[{kind}]"
    return to_json(part).decode()


def _mended(line: bytes) -> bytes:
    """Return the line with half surrogate pairs replaced by U+FFFD.

    A JavaScript string may contain half a surrogate pair, for instance if a tool's output was
    cut. JSON.stringify writes it as an escape, which cannot be stored as UTF-8.
    """
    text = line.decode("utf-8", "replace")
    return _ESCAPE.sub(lambda match: "\\ufffd" if match["half"] else match[0], text).encode()


# Matches every escape of JSON, so that the second half of `\\` is not taken for the start of one.
_ESCAPE: Final = lazy_pattern(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."
)


def _excerpt(line: bytes) -> str:
    # A character has at most four bytes; the rest of a long line is not decoded.
    return repr(line[: EXCERPT_CHARS * 4].decode("utf-8", "replace")[:EXCERPT_CHARS])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
