"""What a call yielded, as the result of a tool: text, structured content, or an error.

The text is that of seed 003: a lone `render` or string as it is, anything else as JSON.
"""

from collections.abc import Sequence
from typing import Any, Final

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic_core import from_json, to_json

from hubd.transport.mcp_spool import Spool, Spooled
from hubd.wire.item import Error, Guidance

# More than this does not go into a model's context at once; the rest is behind a link.
INLINE_BYTES: Final = 64 * 1024
# Of the names an error offers, as many as help.
MAX_NAMES: Final = 50

ERROR_META: Final = "plexus/error"


def result_uri(result_id: str, start: int = 0) -> str:
    """Where a large result can be read."""
    return f"plexus://result/{result_id}" + (f"?from={start}" if start else "")


class Collected:
    """The events of one call: the first ones here, and all of them in a file once they are many."""

    def __init__(self, spool: Spool, inline_bytes: int = INLINE_BYTES) -> None:
        self.count = 0
        self.inline: list[bytes] = []
        # Everything, once it is more than goes inline.
        self.spooled: Spooled | None = None
        self.advice: list[Guidance] = []
        self.error: Error | None = None
        self._spool = spool
        self._room = inline_bytes

    def add(self, content: bytes) -> None:
        """Take one event.

        Raises:
            Overloaded: The whole is larger than a result may be.
        """
        self.count += 1
        if self.spooled is None:
            self._room -= len(content)
            if self._room >= 0:
                self.inline.append(content)
                return
            self.spooled = self._spool.open()
            for line in self.inline:
                self.spooled.add(line)
        self.spooled.add(content)

    def discard(self) -> None:
        """Nobody wants it any more."""
        if self.spooled is not None:
            self._spool.drop(self.spooled)
            self.spooled = None


def tool_result(collected: Collected, *, text_only: bool = False) -> CallToolResult:
    """The result of a tool."""
    if collected.spooled is not None:
        collected.spooled.close()
    if collected.error is not None:
        return _failure(collected, collected.error)
    events: list[Any] = [from_json(event) for event in collected.inline]
    content: list[ContentBlock] = [TextContent(text=text_of(events, collected.inline))]
    if text_only:
        return CallToolResult(content=content)
    structured: dict[str, Any] = {
        "events": events,
        "count": collected.count,
        "truncated": collected.spooled is not None,
    }
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
    content += [TextContent(text=f"Note: {item.suggestion}") for item in collected.advice]
    return CallToolResult(content=content, structured_content=structured)


def text_of(events: Sequence[Any], encoded: Sequence[bytes]) -> str:
    """The events as text."""
    if len(events) == 1:
        event = events[0]
        if isinstance(event, dict) and isinstance(event.get("render"), str):
            return str(event["render"])
        return event if isinstance(event, str) else encoded[0].decode()
    if events and all(isinstance(event, str) for event in events):
        return "\n".join(events)
    return f"[{b','.join(encoded).decode()}]"


def _failure(collected: Collected, error: Error) -> CallToolResult:
    guidance = collected.advice[-1] if collected.advice else Guidance(b"", "", "", [])
    lines = [f"{error.code}: {error.message}"]
    if guidance.suggestion:
        lines.append(guidance.suggestion)
    if guidance.available:
        more = "…" if len(guidance.available) > MAX_NAMES else ""
        lines.append(f"Available: {', '.join(guidance.available[:MAX_NAMES])}{more}")
    if collected.inline:
        done = [from_json(event) for event in collected.inline]
        lines.append(f"Before that:\n{text_of(done, collected.inline)}")
    if collected.spooled is not None:
        lines.append(_remainder(collected, result_uri(collected.spooled.id)))
    problem = {
        "code": error.code,
        "message": error.message,
        "recoverable": error.recoverable,
        "suggestion": guidance.suggestion,
        "available": guidance.available,
    }
    return CallToolResult(
        content=[TextContent(text="\n".join(lines))],
        is_error=True,
        _meta={ERROR_META: from_json(to_json(problem))},
    )


def _remainder(collected: Collected, uri: str) -> str:
    assert collected.spooled is not None
    return (
        f"Only {len(collected.inline)} of {collected.count} events are shown. All of them, "
        f"{collected.spooled.size} bytes: {uri}"
    )
