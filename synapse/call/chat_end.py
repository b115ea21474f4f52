"""The end of a chat: its exit status, and the commands for a chat in the background."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from synapse.errors import CommandError, EndOfChat
from synapse.params.schemas import dashed
from synapse.render.plain import inner_event

if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema
    from synapse.argv import Invocation
    from synapse.hub.cache import Cache

# The exit status of a chat that waits for an approval, or whose tool call was denied.
WAITING_OR_DENIED = 8


class ChatEnd:
    """Notes the events of a chat that decide its exit status."""

    def __init__(self) -> None:
        # The tools that wait for an approval by the approval's id, then the denied tools.
        self._pending: dict[str, str] = {}
        self._denied: list[str] = []
        self._is_denied = False
        # Set by the event that ends the chat.
        self._failure: str | None = None
        self._is_complete = False

    def note(self, content: Any) -> None:
        """Note one event."""
        event = inner_event(content)
        if not isinstance(event, dict):
            return
        kind, approval = event.get("type"), str(event.get("approval_id") or "")
        if kind == "awaiting_approval":
            self._pending[approval] = str(event.get("tool_name") or "")
        elif kind == "approval_resolved":
            tool = self._pending.pop(approval, "")
            if not event.get("approved"):
                self._deny(tool)
        elif kind == "complete":
            self._is_complete, self._failure = True, None
            result = event.get("result")
            denials = result.get("permission_denials") if isinstance(result, dict) else None
            for denial in denials if isinstance(denials, list) else []:
                self._deny(str(denial.get("tool_name") or "") if isinstance(denial, dict) else "")
        elif kind == "error":
            self._failure = str(event.get("message") or "no reason given")

    @property
    def is_waiting(self) -> bool:
        """Whether a tool call waits for an approval."""
        return bool(self._pending)

    def check(self) -> None:
        """Check that the chat ended well.

        Raises:
            CommandError: The chat failed, waits for an approval, or had a tool call denied.
        """
        if self._failure is not None:
            raise EndOfChat(f"the chat failed: {self._failure}")
        if self._pending and not self._is_complete:
            tools = ", ".join(filter(None, self._pending.values()))
            raise CommandError(
                f"the chat waits for an approval{f' of {tools}' if tools else ''}",
                status=WAITING_OR_DENIED,
            )
        if self._is_denied:
            tools = ", ".join(dict.fromkeys(filter(None, self._denied)))
            ended = "the chat is complete, but " if self._is_complete else ""
            raise EndOfChat(
                f"{ended}a tool call was denied{f': {tools}' if tools else ''}",
                status=WAITING_OR_DENIED,
            )

    def _deny(self, tool: str) -> None:
        self._is_denied = True
        self._denied.append(tool)


class Background:
    """The commands that watch and end a chat which continues without its caller."""

    def __init__(self, watch: str, end: str) -> None:
        self.watch = watch
        self.end = end

    def sentence(self, *, is_waiting: bool, width: int | None = None) -> str:
        """Return the commands in a sentence for the user, on several lines if it is too long.

        Args:
            is_waiting: Whether the chat waits for an approval.
            width: The width of the terminal; None for one line.
        """
        if is_waiting:
            state, verb = "The chat waits for an approval in the background.", "Answer"
        else:
            state, verb = "The chat continues in the background.", "Watch"
        sentence = f"{state}  {verb}: {self.watch}   End: {self.end}"
        if width is None or len(sentence) <= width:
            return sentence
        # Each command stays in one piece, to be copied.
        return f"{state}\n  {verb}: {self.watch}\n  End: {self.end}"


def background(
    cache: Cache, invocation: Invocation, schema: MethodSchema, params: dict[str, Any]
) -> Background | None:
    """Return the commands for a chat; None for any other method.

    A chat continues if its namespace has `follow` and `cancel` with one of the given parameters.
    """
    hints = schema.get("annotations", {})
    path = invocation.namespace
    if hints.get("render") != "chat":
        return None
    if hints.get("read_only") and not schema["bidirectional"]:
        return None
    if not (cache.has_method(path, "follow") and cache.has_method(path, "cancel")):
        return None
    accepted = [cache.method(path, name)["params"]["properties"] for name in ("follow", "cancel")]
    for name, value in params.items():
        if isinstance(value, str) and all(name in properties for properties in accepted):
            hub_options = [
                word
                for option in ("--home", "--hub", "--token-file")
                if invocation.flag(option)
                for word in (option, quote(invocation.value(option) or ""))
            ]
            command = " ".join(("synapse", *hub_options, *invocation.path))
            flag = f"--{dashed(name)} {quote(value)}"
            return Background(f"{command} follow {flag}", f"{command} cancel {flag}")
    return None
