"""What a call yielded, as the result of a tool: text, structured content, or an error.

The text of a lone `render` or string is sent as it is, everything else as JSON.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic_core import PydanticSerializationError, from_json, to_json

from hubd.errors import HubError
from hubd.mcp.spool import Spool, Spooled, too_large
from hubd.wire.item import Error, Guidance

# More than this does not go into a model's context at once; the rest is behind a link.
INLINE_BYTES: Final = 64 * 1024
# Clients read messages of up to 200 levels; the message around an event has some of its own.
INLINE_LEVELS: Final = 150
# Beyond this an event is not parsed only to see whether it stands for a text.
MAX_PARSED: Final = 2 * 1024 * 1024
# Of the names an error offers, as many as help.
MAX_NAMES: Final = 50
# Of what a method advised, the latest, and of each the beginning.
MAX_NOTES: Final = 50
MAX_NOTE: Final = 1000
# Of the message of an error, which may be all that another program had to say.
MAX_MESSAGE: Final = 8000

ERROR_META: Final = "plexus/error"

# In a text brackets mean nothing.
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}"))

T = TypeVar("T")


def result_uri(result_id: str, start: int = 0) -> str:
    """Where a large result can be read."""
    return f"plexus://result/{result_id}" + (f"?from={start}" if start else "")


class Collected:
    """The events of one call: the first ones here, and all of them in a file once they are many."""

    def __init__(self, spool: Spool | None, inline_bytes: int = INLINE_BYTES) -> None:
        self.count = 0
        self.inline: list[bytes] = []
        # Everything, once it is more than goes inline.
        self.spooled: Spooled | None = None
        # The latest; a method that advises for ever is not kept in memory.
        self.advice: deque[Guidance] = deque(maxlen=MAX_NOTES)
        self.error: Error | None = None
        # What the first event reads as, where it is too large to be shown itself.
        self._first_text: str | None = None
        # None for a result that cannot be in two places.
        self._spool = spool
        self._room = inline_bytes
        # Set when nobody wants it any more.
        self._discarded = False

    @property
    def lone_text(self) -> str | None:
        """The text that the only event stands for, if there is no more to show of it."""
        return self._first_text if self.count == 1 else None

    def add(self, content: bytes) -> None:
        """Take one event.

        Raises:
            Overloaded: The whole is larger than a result may be.
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
        """All events are there."""
        if self.spooled is not None:
            try:
                self.spooled.close()
            except HubError as error:
                self.discard()
                self.error = Error(b"", error.message, error.code, error.recoverable)

    def discard(self) -> None:
        """Nobody wants it any more."""
        self._discarded = True
        if self.spooled is not None and self._spool is not None:
            self._spool.drop(self.spooled)
            self.spooled = None

    def _add(self, content: bytes) -> None:
        if self.spooled is None:
            self._room -= len(content)
            # A lone text has no levels, whatever is written in it.
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
    """The result of a tool."""
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
        if (
            collected.count == 1
            and isinstance(events[0], dict)
            and _own_text(events[0]) is not None
        ):
            # There are clients that show a model nothing but the structured content.
            structured["text"] = text.text
    elif (drawing := collected.lone_text) is not None and len(drawing.encode()) <= INLINE_BYTES:
        # It is not too large, only what comes with it.
        structured["text"] = drawing
        content.append(TextContent(text=drawing))
    if collected.spooled is not None:
        uri = structured["resource"] = result_uri(collected.spooled.id)
        content.append(TextContent(text=_remainder(collected, uri)))
        content.append(
            ResourceLink(
                uri=uri,
                name="result",
                description="All events, one a line",
                mime_type="application/x-ndjson",
                size=collected.spooled.size,
            )
        )
    content += _notes(collected.advice)
    return CallToolResult(content=content, structured_content=structured)


def read_events(encoded: Sequence[bytes]) -> list[Any]:
    """Events as they are in JSON."""
    return [_read(event) for event in encoded]


def text_of(events: Sequence[Any], encoded: Sequence[bytes]) -> str:
    """The events as text."""
    if len(events) == 1:
        own = _own_text(events[0])
        return own if own is not None else encoded[0].decode()
    if events and all(isinstance(event, str) for event in events):
        return "\n".join(events)
    return f"[{b','.join(encoded).decode()}]"


def printable(text: str) -> str:
    """A text without halves of characters, which names of files may have and JSON may not."""
    return text.encode(errors="replace").decode()


def readable(value: T) -> T:
    """The same for all texts in something that is to be JSON."""
    try:
        to_json(value)
    except PydanticSerializationError:
        made: T = json.loads(printable(json.dumps(value, ensure_ascii=False)))
        return made
    return value


def _own_text(event: Any) -> str | None:
    """The text that an event stands for."""
    text = event.get("render") if isinstance(event, dict) else event
    return text if isinstance(text, str) else None


def _text_in(content: bytes) -> str | None:
    """The same for an event that is not parsed, if it is worth it."""
    try:
        return _own_text(from_json(content)) if len(content) <= MAX_PARSED else None
    except ValueError:
        return None  # too deep, or with half a character in it


def _is_deep(event: bytes) -> bool:
    """Whether a client could not read a message with this event in it."""
    if event.count(b"{") + event.count(b"[") <= INLINE_LEVELS:
        return False
    plain = _TEXT.sub(b"", event).replace(b"[", b"{").replace(b"]", b"}")
    brackets = plain.translate(None, _NO_BRACKETS)
    for _ in range(INLINE_LEVELS):
        if not brackets:
            return False
        # One level, the innermost.
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)


def _read(event: bytes) -> Any:
    try:
        return from_json(event)
    except ValueError:
        # Other programs' JSON may have halves of characters, which the SDK could not send.
        return readable(json.loads(event))


def _failure(collected: Collected, error: Error) -> CallToolResult:
    # What was said before the error is advice too, but not on the error.
    others = list(collected.advice)
    own = bool(others) and others[-1].error_type == error.code
    guidance = others.pop() if own else Guidance(b"", "", "", [])
    message, suggestion = _cut(error.message, MAX_MESSAGE), _cut(guidance.suggestion, MAX_NOTE)
    lines = [f"{error.code}: {message}"]
    if suggestion:
        lines.append(suggestion)
    if guidance.available:
        more = "…" if len(guidance.available) > MAX_NAMES else ""
        lines.append(f"Available: {', '.join(guidance.available[:MAX_NAMES])}{more}")
    lines += [note.text for note in _notes(others)]
    shown = _first(collected.inline)
    if shown:
        lines.append(f"Before that:\n{text_of(read_events(shown), shown)}")
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
    """As many events as go inline."""
    room, shown = INLINE_BYTES, []
    for event in encoded:
        room -= len(event)
        if room < 0:
            break
        shown.append(event)
    return shown


def _notes(advice: Iterable[Guidance]) -> list[TextContent]:
    return [
        TextContent(text=f"Note: {printable(_cut(item.suggestion, MAX_NOTE))}") for item in advice
    ]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _remainder(collected: Collected, uri: str) -> str:
    assert collected.spooled is not None
    return (
        f"Only {len(collected.inline)} of {collected.count} events are shown. All of them, "
        f"{collected.spooled.size} bytes: {uri}"
    )
