"""A plugin for tests of the page: it adds many events to a running chat at once."""

import json
import time
from typing import Annotated, Any

from pydantic import Field

from hubd.activation import Activation, Event, method
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from hubd.wire.handle import WireHandle

HANDLE = WireHandle("claudecode", "1.0.0", "chat_event")
PER_TRANSACTION = 5000


class Filled(Event):
    """The events are stored."""

    count: int


class Filler(Activation, namespace="filler", version="1.0.0"):
    """Events without an agent that prints them."""

    @method
    async def fill(
        self, stream_id: str, count: Annotated[int, Field(ge=1, le=1_000_000)], text: str = ""
    ) -> Filled:
        """Add events to a running chat: texts, tool calls and their results.

        Args:
            stream_id: The chat.
            count: The number of events.
            text: Appended to each text.
        """
        stream = await streams.look_up(self.db, stream_id)
        now = int(time.time())
        # The seq of each event is its number, too.
        first, end = stream.next_seq, stream.next_seq + count
        for start in range(first, end, PER_TRANSACTION):
            numbers = range(start, min(start + PER_TRANSACTION, end))
            events = [(event["type"], json.dumps(event)) for event in map(_event(text), numbers)]

            def push(tx: Tx, batch: list[tuple[str, str]] = events) -> None:
                streams.push_many(tx, stream.key, tree.origin(tx, HANDLE), batch, now)

            await self.db.transaction(push, in_thread=True)
        return Filled(count=count)


def _event(text: str) -> Any:
    position = {"tree_id": ids.text(ids.uuid4()), "node_id": ids.text(ids.uuid7())}

    def event(number: int) -> dict[str, Any]:
        block = {"block_index": number, "message_id": f"msg_{number}", "position": position}
        call = f"toolu_{number - number % 3}"
        if number % 3 == 0:
            lines = f"echo {number}\n" * (1 + number % 4)
            tool = {"tool_use_id": call, "tool_name": "Bash", "input": {"command": lines}}
            return {"type": "tool_use", **tool, **block}
        if number % 3 == 1:
            output = "\n".join(f"line {line} of {number}" for line in range(number % 7 + 1))
            result = {"tool_use_id": call, "output": output, "is_error": number % 30 == 1}
            return {"type": "tool_result", **result, "position": position, "block": ""}
        words = f"Answer **{number}** with some words. " * (1 + number % 5)
        return {"type": "content", "text": f"{words}{text}", **block}

    return event
