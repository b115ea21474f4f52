"""The view of a chat: it shows each event when it comes, and redraws only the last lines."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from rich.text import Text

from hubd.wire.terminal import clean, one_line
from synapse.render.chat import lines
from synapse.render.chat.events import Part, blocks, read
from synapse.render.chat.markdown_stream import MarkdownStream
from synapse.render.chat.region import Region
from synapse.render.human import Human
from synapse.render.lines import EventLines
from synapse.render.nodes import short_id
from synapse.render.waiting import FRAMES, PATIENCE_SECONDS

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema

# The shortest time between two drawings of the changing lines.
REDRAW_SECONDS = 0.05
# A slow drawing is followed by a pause of this many times its own length.
REST_FACTOR = 4


class Chat(Human):
    """A conversation as it grows.

    Args:
        returns: The schema of the method's events.
        prompt: The prompt of the call, empty if the user sees it already; None if the events have
            it.
        label: The name of the conversation, for its last line.
        thinking: Whether thinking is shown; else it is one line.
        is_replay: Whether the events may be old, so that their times mean nothing.
    """

    reports_end = True

    def __init__(
        self,
        returns: JsonSchema,
        *,
        prompt: str | None = None,
        label: str = "",
        thinking: bool = False,
        is_replay: bool = False,
    ) -> None:
        super().__init__()
        self._lines = EventLines(returns)
        self._region = Region(self.console)
        # The prompt until it is on the screen, and whether the event with the prompt repeats it.
        self._prompt = prompt or ""
        self._has_prompt = prompt is not None
        self._label = label
        self._shows_thinking = thinking
        self._began: float | None = None if is_replay else time.monotonic()
        self._engine = ""
        # The block that grows: its name, its text so far, and the Markdown that is not final.
        self._block: tuple[Any, ...] = ()
        self._received: list[str] = []
        self._length = 0
        self._stream: MarkdownStream | None = None
        # Thinking: when it began, and when the event before it was recorded.
        self._thinking_since: float | None = None
        self._recorded_at: int | None = None
        # The tool call that is being written, the calls without a result by their ids, and the
        # last call on the screen.
        self._growing_tool = ""
        self._tools: dict[str, tuple[str, Any]] = {}
        self._last_tool = ""
        # Approvals by their ids; a question that waits for the hub to ask the user.
        self._approvals: dict[str, Part] = {}
        self._question: Part | None = None
        # The reasons of denied tool calls, by the ids of the calls; empty for a denial without one.
        self._denied: dict[str, str] = {}
        # The tools of the denials on the screen.
        self._denied_tools: set[str] = set()
        # The last drawing of the changing lines: its end, and the earliest next one.
        self._next_drawing = 0.0
        self._last_event = time.monotonic()

    # -- the renderer ----------------------------------------------------------------------------

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line, below which nothing changes."""
        return self._region.is_empty

    @property
    def activity(self) -> str:
        """The reason why nothing happens."""
        if self._approvals:
            tools = {part.field("tool_name") for part in self._approvals.values()}
            return f"{', '.join(filter(None, sorted(tools))) or 'a tool'} waits for an approval"
        if self._tools:
            return f"{next(reversed(self._tools.values()))[0] or 'a tool'} is running"
        return f"waiting for {self._engine}" if self._engine else "waiting"

    def event(self, content: Any) -> None:
        """Show one event."""
        part = read(content)
        self._last_event = time.monotonic()
        if self._prompt:
            self._commit(lines.prompt_lines(self._prompt, self.console))
            self._prompt = ""
        self._take(part)
        if part.recorded_at is not None:
            self._recorded_at = part.recorded_at

    def idle(self) -> None:
        """Draw the text that waits, and the seconds of a silence."""
        super().idle()
        self._ask_elsewhere()
        self._next_drawing = 0.0
        self._draw()

    def pause(self) -> None:
        """Make all lines final."""
        super().pause()
        self._question = None
        self._finish_block()

    def close(self) -> None:
        """Show the rest."""
        self._ask_elsewhere()
        self.pause()

    def warn(self, text: str) -> None:
        """Show the hub's advice; below the denial of a tool, advice about it has no mark."""
        self._finish_block()
        names = set(re.findall(r"[\w-]+", text))
        mark = "  " if names & self._denied_tools else "⚠ "
        self._commit(self._folded(Text(f"{mark}{one_line(text)}", style="yellow")))

    # -- events ----------------------------------------------------------------------------------

    def _take(self, part: Part) -> None:
        match part.kind:
            case "":
                return
            case "text" | "thinking" | "tool" if part.phase:
                self._grow(part)
            case "text" | "thinking" | "tool":
                self._complete(part)
            case "message":
                self._message(part)
            case "prompt":
                self._show_prompt(part)
            case "start":
                names = ("engine", "model_id", "model")
                self._engine = one_line(next(filter(None, map(part.field, names)), ""))
            case "question":
                self._finish_block()
                self._approvals[part.field("approval_id")] = part
                self._question = part
            case "decision":
                self._decide(part)
            case "result":
                self._show_result(part)
            case "end":
                self._end(part)
            case "failure":
                self._finish_block()
                self._commit(self._folded(lines.failure_lines(part.text)))
            case _:
                if line := self._lines.line(part.event):
                    self._finish_block()
                    self._commit([Text(lines.cut(f"· {line}", self.console.width), style="dim")])

    def _grow(self, part: Part) -> None:
        """Add a piece to a block."""
        offset = part.event.get("offset")
        is_first = offset == 0 and bool(self._received)
        if part.block != self._block or is_first:
            self._finish_block()
            self._block, self._received, self._length = part.block, [], 0
            self._begin(part)
        if part.phase != "delta" or part.is_nested:
            self._draw()
            return
        text = part.text
        if isinstance(offset, int) and offset < self._length:
            text = text[self._length - offset :]
        self._received.append(text)
        self._length += len(text)
        self._add_text(text)

    def _begin(self, part: Part) -> None:
        if part.kind == "tool":
            self._growing_tool = part.field("tool_name")
        elif part.kind == "thinking":
            self._thinking_since = time.monotonic()
            self._stream = MarkdownStream(self.console) if self._shows_thinking else None
        elif not part.is_nested:
            self._stream = MarkdownStream(self.console)

    def _add_text(self, text: str) -> None:
        if self._stream is not None and text:
            self._draw(self._styled(self._stream.add(text)))
        else:
            self._draw()

    def _complete(self, part: Part) -> None:
        """Show a complete block, or the rest of one that was shown in pieces."""
        has_grown = part.block == self._block and bool(self._received)
        received = "".join(self._received) if has_grown else ""
        if part.kind == "tool":
            self._show_tool(part)
        elif part.is_nested:
            self._finish_block()
            if part.kind == "text":
                line = lines.cut(f"  {one_line(part.text[:2000])}", self.console.width)
                self._commit([Text(line, style="dim")])
        elif part.kind == "thinking" and not self._shows_thinking:
            if self._thinking_since is None:
                self._fold(self._recorded_seconds(part))
        elif not has_grown or not part.text.startswith(received):
            self._finish_block()
            self._begin(part)
            self._add_text(part.text)
        else:
            self._add_text(part.text[len(received) :])
        self._finish_block()
        self._block, self._received = (), []

    def _fold(self, seconds: float | None) -> None:
        self._commit([lines.thinking_line(seconds)])

    def _recorded_seconds(self, part: Part) -> float | None:
        """Return the time since the event before a recorded one; None if it is not known."""
        if part.recorded_at is None or self._recorded_at is None:
            return None
        return float(part.recorded_at - self._recorded_at) or None

    def _message(self, part: Part) -> None:
        """Show a complete message of a conversation."""
        self._finish_block()
        mark = short_id(part.event, "node_id")
        for number, block in enumerate(blocks(part)):
            if block.kind == "prompt":
                marked = clean(mark) if number == 0 else ""
                self._commit(lines.prompt_lines(block.text, self.console, marked))
                continue
            if number == 0 and mark and block.kind != "result":
                self._commit([Text(f"● {clean(mark)}", style="dim")])
            self._take(block._replace(block=("message", id(part), number)))

    def _show_prompt(self, part: Part) -> None:
        self._finish_block()
        if part.text and not self._has_prompt:
            self._commit(lines.prompt_lines(part.text, self.console))
        self._has_prompt = False

    def _show_tool(self, part: Part) -> None:
        self._finish_block()
        name, key = part.field("tool_name"), part.field("tool_use_id")
        tool_input = part.event.get("input")
        self._tools[key] = (one_line(name[: lines.MAX_NAME]), tool_input)
        self._last_tool = key
        self._commit(
            [lines.tool_line(name, tool_input, self.console.width, is_nested=part.is_nested)]
        )

    def _show_result(self, part: Part) -> None:
        self._finish_block()
        key = part.field("tool_use_id")
        name, _ = self._tools.pop(key, ("", None))
        reason = self._denied.get(key)
        if reason is not None and reason in ("", part.text):
            return  # The result only repeats the line about the denial.
        other = "" if key == self._last_tool else name
        self._commit(lines.result_lines(part, self.console.width, name=other))
        self._last_tool = ""

    def _ask_elsewhere(self) -> None:
        """Show an approval that the hub does not ask this caller about."""
        part, self._question = self._question, None
        if part is not None:
            tool = part.field("tool_name")[: lines.MAX_NAME]
            text = self._lines.summary(part.event) or f"{tool or 'a tool'} waits for an approval"
            self._commit([Text(lines.cut(f"? {text}", self.console.width), style="yellow")])

    def _decide(self, part: Part) -> None:
        self._finish_block()
        self._ask_elsewhere()
        question = self._approvals.pop(part.field("approval_id"), None)
        tool = question.field("tool_name") if question else ""
        if not part.event.get("approved"):
            status = part.field("status")
            reason = part.field("message") or ("" if status == "denied" else status)
            if question:
                self._denied[question.field("tool_use_id")] = reason
            self._show_denial(tool, reason)
        elif line := self._lines.summary(part.event):
            self._commit([Text(lines.cut(f"  {line}", self.console.width), style="dim")])

    def _show_denial(self, tool: str, reason: str = "") -> None:
        self._denied_tools.add(tool)
        self._commit(self._folded(lines.denial_line(tool, reason)))

    def _end(self, part: Part) -> None:
        self._finish_block()
        began = self._began
        seconds = None if began is None else time.monotonic() - began
        self._commit(self._folded(lines.end_line(part, seconds, self._label)))
        # The hub's advice about these calls comes next.
        denials = part.object("result").get("permission_denials")
        for denial in denials if isinstance(denials, list) else []:
            if isinstance(denial, dict) and denial.get("tool_use_id") not in self._denied:
                self._show_denial(str(denial.get("tool_name") or ""))

    # -- drawing ---------------------------------------------------------------------------------

    def _finish_block(self) -> None:
        """Make the block that grows final. What was received of it is not forgotten."""
        final: list[Text] = []
        if self._thinking_since is not None and self._stream is None:
            final.append(lines.thinking_line(time.monotonic() - self._thinking_since))
        elif self._stream is not None:
            final = self._styled(self._stream.finish())
        self._stream = self._thinking_since = None
        self._growing_tool = ""
        self._commit(final)

    def _commit(self, final: list[Text]) -> None:
        """Write lines that never change again."""
        Human.pause(self)
        if final or not self._region.is_empty:
            self._region.update(final, [])

    def _folded(self, text: Text) -> list[Text]:
        """Return a text in lines that fit the terminal, those after the first one indented."""
        return lines.folded(text, self.console)

    def _styled(self, drawn: list[Text]) -> list[Text]:
        if self._thinking_since is not None:
            for line in drawn:
                line.stylize("dim italic")
        return drawn

    def _draw(self, final: list[Text] | None = None) -> None:
        """Write final lines and draw those that change, unless they were drawn just now."""
        start = time.monotonic()
        if not final and (start < self._next_drawing or not self._region.can_change):
            return
        Human.pause(self)
        self._region.update(final or [], self._changing_lines(start))
        end = time.monotonic()
        self._next_drawing = end + max(REDRAW_SECONDS, REST_FACTOR * (end - start))

    def _changing_lines(self, now: float) -> list[Text]:
        if not self._region.can_change:
            return []
        if self._stream is not None:
            changing = self._styled(self._stream.unfinished())
        elif self._thinking_since is not None:
            seconds = lines.duration(now - self._thinking_since)
            changing = [Text(f"✻ thinking  {seconds}", style="dim")]
        elif self._growing_tool:
            changing = [lines.tool_line(self._growing_tool, "…", self.console.width)]
        else:
            return []
        silence = now - self._last_event
        if silence >= PATIENCE_SECONDS:
            frame = FRAMES[int(silence * 4) % len(FRAMES)]
            changing.append(Text(f"{frame} {int(silence)} s", style="dim"))
        return changing
