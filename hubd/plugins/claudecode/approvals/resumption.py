"""Carry out tool calls that waited for an approval when their program ended.

The program's session file has the message with the calls. Each of its calls without a result is
closed or carried out:

    the hub has its result                      write that result: the program did not
    it has started, or may have started         write that its outcome is unknown
    it was decided, or was never asked about    mark it; the program carries it out or asks
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from hubd.errors import HubError, Unavailable
from hubd.plugins.claudecode.approvals.store import ApprovalRow
from hubd.plugins.claudecode.native import pending_call
from hubd.plugins.claudecode.native.call_message import OpenCall
from hubd.wire.lazy_dataclass import dataclass

UNKNOWN_OUTCOME: Final = (
    "This call was started before the hub stopped, and its outcome is unknown. Check whether it "
    "took effect before you rely on it or make it again."
)
NOT_CARRIED_OUT: Final = (
    "Not carried out: the program ended before this call was decided, and this version of it can "
    "continue only one call. Make the call again if it is still needed."
)


class CallLost(Unavailable):
    """A call can't be carried out any more."""


@dataclass(frozen=True)
class Ledger:
    """What the hub knows about the calls of a chat.

    Attributes:
        approvals: All approvals of the chat, the oldest first.
        results: The results that the hub has recorded, by call: the block and its entry's id.
        subagents: The calls whose subagents have begun.
    """

    approvals: Sequence[ApprovalRow]
    results: Mapping[str, Mapping[str, Any]]
    subagents: frozenset[str]

    def waits(self, tool_use_id: str) -> bool:
        """Return whether a call has an approval and has not started."""
        row = self._row(tool_use_id)
        return row is not None and row.call_state == "waiting" and row.status in _DECIDED

    def may_have_started(self, tool_use_id: str, *, is_first: bool) -> bool:
        """Return whether a call without a result may have started.

        Args:
            tool_use_id: The call.
            is_first: Whether the call precedes all waiting calls of its message. Calls are made in
                order, so a call that was never asked about was running.
        """
        if tool_use_id in self.subagents:
            return True
        row = self._row(tool_use_id)
        return is_first if row is None else not self.waits(tool_use_id)

    def _row(self, tool_use_id: str) -> ApprovalRow | None:
        rows = [row for row in self.approvals if row.tool_use_id == tool_use_id]
        return rows[-1] if rows else None


_DECIDED: Final = ("pending", "approved", "denied", "timed_out")


@dataclass
class Resumption:
    """The calls that wait in a native session. `prepare` writes a marker for the next one.

    Attributes:
        file: The native session file.
        native_id: The id of the native session.
        working_dir: The working directory of the chat.
        version: The version of the program that continues.
        permission_mode: The permission mode of the chat.
        tool_use_id: A call that waits.
        ledger: The hub's record of the calls.
    """

    file: Path
    native_id: str
    working_dir: Path
    version: str
    permission_mode: str
    tool_use_id: str
    ledger: Ledger
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
            version = self.version or "an unknown version"
            raise CallLost(f"the agent's program ({version}) can't continue a waiting call")
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
        try:
            return await asyncio.to_thread(self._mark_next)
        except OSError as error:
            raise CallLost(f"{self.file} cannot be written: {error.strerror}") from error

    async def withdraw(self) -> None:
        """Make a marker ineffective whose call was not carried out: the chat has ended."""
        with suppress(OSError, HubError):
            await asyncio.to_thread(pending_call.withdraw_live_marker, self.file)

    def _mark_next(self) -> bool:
        calls = self._left(pending_call.inspect(self.file, self.tool_use_id).open_calls)
        marked, *others = calls
        if marked.tool_use_id in self._marked:
            raise CallLost("the program did not carry out the call")
        self._marked.add(marked.tool_use_id)
        if others and not pending_call.supports_stages(self.version):
            for call in others:
                self._close(call, NOT_CARRIED_OUT)
            others = []
        pending_call.write_marker(
            self.file,
            marked,
            session_id=self.native_id,
            cwd=self.working_dir,
            version=self.version,
            permission_mode=self.permission_mode,
        )
        if others:
            # The next `prepare` finds the message by this call.
            self.tool_use_id = others[0].tool_use_id
        return bool(others)

    def _left(self, calls: Sequence[OpenCall]) -> list[OpenCall]:
        """Close the calls that are not carried out again; return the others, decided ones first."""
        left: list[OpenCall] = []
        is_first = not self._marked
        for call in calls:
            key = call.tool_use_id
            result = self.ledger.results.get(key)
            if result is not None:
                block = result["block"]
                self._close(
                    call, block.get("content") or "", block.get("is_error") is True, result["uuid"]
                )
            elif self.ledger.may_have_started(key, is_first=is_first):
                self._close(call, UNKNOWN_OUTCOME)
            else:
                is_first = False
                left.append(call)
        return sorted(left, key=lambda call: not self.ledger.waits(call.tool_use_id))

    def _close(
        self,
        call: OpenCall,
        content: str | list[dict[str, Any]],
        is_error: bool = True,
        uuid: str | None = None,
    ) -> None:
        pending_call.write_result(
            self.file,
            call,
            content,
            session_id=self.native_id,
            cwd=self.working_dir,
            version=self.version,
            is_error=is_error,
            uuid=uuid,
        )
