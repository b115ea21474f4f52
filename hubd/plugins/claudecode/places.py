"""The open chats of one hub by their state, and the limit of those that run at once."""

from typing import Final

from hubd.plugins.claudecode.chat import Chat
from hubd.storage.streams.streams import StreamRow

# The maximum number of chats that run at once; the others wait.
MAX_RUNNING: Final = 64


class Places:
    """All chats that have started and not ended. A session has one of them at most.

    A chat that waits for an approval holds no place, so others can start. Its program still runs,
    so beyond the limit of programs it is parked.
    """

    def __init__(self) -> None:
        # The chats with a program, by stream.
        self.running: dict[int, Chat] = {}
        # The chats that wait for approvals without a program, by stream.
        self.parked: dict[int, StreamRow] = {}
        # The stream of each busy session. Its chat starts, runs or is parked.
        self.busy: dict[bytes, int] = {}

    @property
    def working(self) -> int:
        """The number of chats that hold a place."""
        waiting = sum(chat.questions.is_waiting for chat in self.running.values())
        return self._programs - waiting

    @property
    def is_full(self) -> bool:
        """Whether no further chat may start."""
        return self.working >= MAX_RUNNING

    def may_start(self, session_id: bytes) -> bool:
        """Return whether a chat of a session may start now."""
        return session_id not in self.busy and not self.is_full

    def chat_of(self, session_id: bytes) -> Chat | None:
        """Return the running chat of a session, if there is one."""
        return self.running.get(self.busy.get(session_id, 0))

    async def make_room(self) -> None:
        """Park chats that wait for approvals while too many programs run."""
        while self._programs > MAX_RUNNING:
            waiting = [chat for chat in self.running.values() if chat.questions.can_park]
            if not waiting:
                return
            longest = min(waiting, key=lambda chat: chat.questions.waiting_since)
            if not await longest.park():
                return
            await longest.ended.wait()

    @property
    def _programs(self) -> int:
        """The number of chats that have a program, or are about to start one."""
        return len(self.busy) - len(self.parked)
