"""Carry out tool calls that waited for an approval when their program ended."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from hubd.errors import Unavailable
from hubd.plugins.claudecode.native import pending_call
from hubd.plugins.claudecode.native.pending_call import OpenCall

NOT_CARRIED_OUT = (
    "Not carried out: the program ended before this call was decided, and this version of it can "
    "continue only one call. Make the call again if it is still needed."
)


class CallLost(Unavailable):
    """A call can't be carried out any more."""


@dataclass
class Resumption:
    """The calls that wait in a native session. `prepare` writes a marker for the next one.

    Attributes:
        file: The native session file.
        native_id: The id of the native session.
        working_dir: The working directory of the chat.
        version: The version of the program that continues.
        permission_mode: The permission mode of the chat.
        tool_use_id: A call with a decision; carried out first.
    """

    file: Path
    native_id: str
    working_dir: Path
    version: str
    permission_mode: str
    tool_use_id: str
    # The calls that were marked so far; each is marked once.
    _marked: set[str] = field(default_factory=set)

    async def is_missing(self) -> bool:
        """Return whether the session file lacks the call: it is gone, or a crash lost its end."""
        state = await asyncio.to_thread(pending_call.inspect, self.file, self.tool_use_id)
        return state.kind == "missing"

    async def check(self) -> None:
        """Check that the calls can be continued, and remove the traces of a hub that died.

        Raises:
            CallLost: They can't be.
        """
        if not pending_call.supports_marker(self.version):
            raise CallLost(f"version {self.version} of the program can't continue a waiting call")
        state = await asyncio.to_thread(pending_call.inspect, self.file, self.tool_use_id)
        if state.kind == "closed_by_hub_death":
            await asyncio.to_thread(pending_call.cut, self.file, self.tool_use_id)
            state = await asyncio.to_thread(pending_call.inspect, self.file, self.tool_use_id)
        if state.kind != "open":
            raise CallLost(state.reason or f"the call is {state.kind} in the program's session")

    async def prepare(self) -> bool:
        """Mark the next call for the program. Return whether others follow it.

        Raises:
            CallLost: The call can't be continued.
        """
        await self.check()
        if self.tool_use_id in self._marked:
            raise CallLost("the program did not carry out the call")
        self._marked.add(self.tool_use_id)
        try:
            return await asyncio.to_thread(self._mark)
        except OSError as error:
            raise CallLost(f"{self.file} cannot be written: {error.strerror}") from error

    def _mark(self) -> bool:
        state = pending_call.inspect(self.file, self.tool_use_id)
        first = next(call for call in state.open_calls if call.tool_use_id == self.tool_use_id)
        others = [call for call in state.open_calls if call is not first]
        if others and not pending_call.supports_stages(self.version):
            for call in others:
                self._close(call)
            others = []
        pending_call.write_marker(
            self.file,
            first,
            session_id=self.native_id,
            cwd=str(self.working_dir),
            version=self.version,
            permission_mode=self.permission_mode,
        )
        if others:
            # The next `prepare` marks this one.
            self.tool_use_id = others[0].tool_use_id
        return bool(others)

    def _close(self, call: OpenCall) -> None:
        pending_call.write_result(
            self.file,
            call,
            NOT_CARRIED_OUT,
            session_id=self.native_id,
            cwd=str(self.working_dir),
            version=self.version,
        )
