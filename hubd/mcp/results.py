"""The events of a call as the result of a tool: text, structured content, or an error.

The `render` of a single event, or a single string, is sent as text; other events as JSON.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from mcp_types import (
    SERVER_INFO_META_KEY,
    CallToolResult,
    ContentBlock,
    ResourceLink,
    TextContent,
)
from mcp_types.methods import serialize_server_result
from pydantic_core import PydanticSerializationError, from_json, to_json

from hubd.errors import HubError
from hubd.mcp.spool import Spool, Spooled, too_large
from hubd.wire.item import Error, Guidance
from hubd.wire.text import shorten

# Larger results are cut here for the model's sake; a link leads to the rest.
INLINE_BYTES: Final = 64 * 1024
# Clients read messages of up to 200 levels, and the message around an event has some too.
INLINE_LEVELS: Final = 150
# Larger events are not parsed in search of their text.
MAX_PARSED: Final = 2 * 1024 * 1024
# The most names that an error lists in its text.
MAX_NAMES: Final = 50
# The most notes of a call, the latest ones, and the most characters of each.
MAX_NOTES: Final = 50
MAX_NOTE: Final = 1000
# Characters of an error message, which may be the output of another program.
MAX_MESSAGE: Final = 8000

ERROR_META: Final = "plexus/error"

# Brackets in strings do not count as nesting.
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}"))

T = TypeVar("T")


def result_uri(result_id: str, start: int = 0) -> str:
    """Return the URI of a large result."""
    return f"plexus://result/{result_id}" + (f"?from={start}" if start else "")


class Collected:
    """The events of one call: the first in memory, and all in a file if they are many."""

    def __init__(self, spool: Spool | None, inline_bytes: int = INLINE_BYTES) -> None:
        self.count = 0
        self.inline: list[bytes] = []
        # All events, if they exceed the inline limit.
        self.spooled: Spooled | None = None
        # The latest notes; older ones are dropped.
        self.advice: deque[Guidance] = deque(maxlen=MAX_NOTES)
        self.error: Error | None = None
        # The text of the first event, if the event itself is too large.
        self._first_text: str | None = None
        # None for a text-only result, which cannot link to a file.
        self._spool = spool
        self._room = inline_bytes
        # Set when the result is no longer needed.
        self._discarded = False

    @property
    def lone_text(self) -> str | None:
        """The text of the only event, if the event itself is too large."""
        return self._first_text if self.count == 1 else None

    def add(self, content: bytes) -> None:
        """Add one event.

        Raises:
            Overloaded: The result exceeds its size limit.
            Unavailable: The disk is full.
        """
        if self._discarded:
            return
        self.count += 1
        try:
            self._add(content)
        except HubError:
            self.discard()
            raise

    def close(self) -> None:
        """Close the file; all events were added."""
        if self.spooled is not None:
            try:
                self.spooled.close()
            except HubError as error:
                self.discard()
                self.error = Error(b"", error.message, error.code, error.recoverable)

    def discard(self) -> None:
        """Delete the file; further events are ignored."""
        self._discarded = True
        if self.spooled is not None and self._spool is not None:
            self._spool.drop(self.spooled)
            self.spooled = None

    def _add(self, content: bytes) -> None:
        if self.spooled is None:
            self._room -= len(content)
            # A text-only result is sent as a string, so its nesting does not matter.
            if self._room >= 0 and (self._spool is None or not _is_deep(content)):
                self.inline.append(content)
                return
            if self._spool is None:
                raise too_large()
            self.spooled = self._spool.open()
            if not self.inline:
                self._first_text = _text_in(content)
            for line in self.inline:
                self.spooled.add(line)
        self.spooled.add(content)


def tool_result(collected: Collected, *, text_only: bool = False) -> CallToolResult:
    """Return the result of a tool call."""
    collected.close()
    if collected.error is not None:
        return _failure(collected, collected.error)
    events = read_events(collected.inline)
    text = TextContent(text=text_of(events, collected.inline))
    if text_only:
        return CallToolResult(content=[text])
    structured: dict[str, Any] = {
        "events": events,
        "count": collected.count,
        "truncated": collected.spooled is not None,
    }
    content: list[ContentBlock] = []
    if events or collected.spooled is None:
        content.append(text)
        if collected.count == 1 and _has_render(events):
            # Some clients show the model only the structured content.
            structured["text"] = text.text
    elif (lone := collected.lone_text) is not None and len(lone.encode()) <= INLINE_BYTES:
        # The event is too large, but its text is not.
        structured["text"] = lone
        content.append(TextContent(text=lone))
    if collected.spooled is not None:
        uri = structured["resource"] = result_uri(collected.spooled.id)
        content.append(TextContent(text=_remainder(collected, uri)))
        content.append(
            ResourceLink(
                uri=uri,
                name="result",
                description="All events, one per line",
                mime_type="application/x-ndjson",
                size=collected.spooled.size,
            )
        )
    content += _notes(collected.advice)
    return CallToolResult(content=content, structured_content=structured)


def encode_response(
    request_id: str | int,
    collected: Collected,
    version: str,
    server_info: Mapping[str, Any],
    *,
    text_only: bool = False,
) -> bytes:
    """Return the response to a tool call as JSON, equal to the response that the SDK writes.

    Args:
        request_id: The id of the request.
        collected: The events of the call.
        version: The version of the protocol, which is one without sessions.
        server_info: The name and version of this server.
        text_only: Whether the result has no structured content.
    """
    if not text_only and (plain := _plain_result(collected)) is not None:
        parts = (to_json(request_id), plain, to_json({SERVER_INFO_META_KEY: server_info}))
        return b'{"jsonrpc":"2.0","id":%b,"result":{%b,"_meta":%b}}' % parts
    result = tool_result(collected, text_only=text_only)
    dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    shaped = serialize_server_result("tools/call", version, dumped)
    shaped["_meta"] = {**shaped.get("_meta", {}), SERVER_INFO_META_KEY: server_info}
    return to_json(readable({"jsonrpc": "2.0", "id": request_id, "result": shaped}))


def _plain_result(collected: Collected) -> bytes | None:
    """Return the fields of a result that is only events, with the bytes of the events.

    None if there is more to report, or if an event is not JSON as all clients read it.
    """
    inline = collected.inline
    if not inline or collected.error or collected.spooled or collected.advice:
        return None
    try:
        # A plugin's own JSON could break the message around it, and was not parsed before.
        events = [from_json(event, allow_inf_nan=False) for event in inline]
    except ValueError:
        return None
    text = to_json(text_of(events, inline))
    more = b',"text":%b' % text if _has_render(events) else b""
    return (
        b'"content":[{"text":%b,"type":"text"}],"isError":false,"resultType":"complete",'
        b'"structuredContent":{"events":[%b],"count":%d,"truncated":false%b}'
    ) % (text, b",".join(inline), collected.count, more)


def read_events(encoded: Sequence[bytes]) -> list[Any]:
    """Return the parsed events."""
    return [_read(event) for event in encoded]


def text_of(events: Sequence[Any], encoded: Sequence[bytes]) -> str:
    """Return the events as text."""
    if len(events) == 1:
        own = _own_text(events[0])
        return own if own is not None else encoded[0].decode()
    if events and all(isinstance(event, str) for event in events):
        return "\n".join(events)
    return f"[{b','.join(encoded).decode()}]"


def printable(text: str) -> str:
    """Return a text without lone surrogates, which file names may contain and JSON may not."""
    return text.encode(errors="replace").decode()


def readable(value: T) -> T:
    """Return a JSON value without lone surrogates in its texts."""
    try:
        to_json(value)
    except PydanticSerializationError:
        replaced: T = json.loads(printable(json.dumps(value, ensure_ascii=False)))
        return replaced
    return value


def _own_text(event: Any) -> str | None:
    """Return the text of an event that is a string or has a `render`."""
    text = event.get("render") if isinstance(event, dict) else event
    return text if isinstance(text, str) else None


def _has_render(events: Sequence[Any]) -> bool:
    """Return whether there is one event, with a `render`."""
    return len(events) == 1 and isinstance(events[0], dict) and _own_text(events[0]) is not None


def _text_in(content: bytes) -> str | None:
    """Return the text of an encoded event, if it is not too large to parse."""
    try:
        return _own_text(from_json(content)) if len(content) <= MAX_PARSED else None
    except ValueError:
        return None  # nested too deeply, or with a lone surrogate


def _is_deep(event: bytes) -> bool:
    """Return whether an event is nested too deeply for a client."""
    if event.count(b"{") + event.count(b"[") <= INLINE_LEVELS:
        return False
    plain = _TEXT.sub(b"", event).replace(b"[", b"{").replace(b"]", b"}")
    brackets = plain.translate(None, _NO_BRACKETS)
    for _ in range(INLINE_LEVELS):
        if not brackets:
            return False
        # Remove the innermost level.
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)


def _read(event: bytes) -> Any:
    try:
        return from_json(event)
    except ValueError:
        # JSON of other programs may contain lone surrogates, which the SDK cannot send.
        return readable(json.loads(event))


def _failure(collected: Collected, error: Error) -> CallToolResult:
    # Only the last note may belong to the error; earlier ones are shown as notes.
    notes = list(collected.advice)
    belongs = bool(notes) and notes[-1].error_type == error.code
    guidance = notes.pop() if belongs else Guidance(b"", "", "", [])
    message = shorten(error.message, MAX_MESSAGE)
    suggestion = shorten(guidance.suggestion, MAX_NOTE)
    lines = [f"{error.code}: {message}"]
    if suggestion:
        lines.append(suggestion)
    if guidance.available:
        more = "…" if len(guidance.available) > MAX_NAMES else ""
        lines.append(f"Available: {', '.join(guidance.available[:MAX_NAMES])}{more}")
    lines += [note.text for note in _notes(notes)]
    earlier = _first(collected.inline)
    if earlier:
        lines.append(f"Events before the error:\n{text_of(read_events(earlier), earlier)}")
    if collected.spooled is not None:
        lines.append(_remainder(collected, result_uri(collected.spooled.id)))
    problem = {
        "code": error.code,
        "message": printable(message),
        "recoverable": error.recoverable,
        "suggestion": printable(suggestion),
        "available": [printable(name) for name in guidance.available],
    }
    return CallToolResult(
        content=[TextContent(text=printable("\n".join(lines)))],
        is_error=True,
        _meta={ERROR_META: problem},
    )


def _first(encoded: Sequence[bytes]) -> list[bytes]:
    """Return the first events up to the inline limit."""
    room, first = INLINE_BYTES, []
    for event in encoded:
        room -= len(event)
        if room < 0:
            break
        first.append(event)
    return first


def _notes(advice: Iterable[Guidance]) -> list[TextContent]:
    return [
        TextContent(text=f"Note: {printable(shorten(item.suggestion, MAX_NOTE))}")
        for item in advice
    ]


def _remainder(collected: Collected, uri: str) -> str:
    assert collected.spooled is not None
    return (
        f"Only {len(collected.inline)} of {collected.count} events are shown. "
        f"All events ({collected.spooled.size} bytes): {uri}"
    )
