"""Consumers: named positions in a stream that the hub stores."""

from __future__ import annotations

import time
from typing import Unpack

from hubd.activation import NotFound, method
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase
from hubd.plugins.claudecode.methods.parameters import STREAM, Name, Seq, StreamAddress
from hubd.storage import ids
from hubd.storage.streams import consumers


class Consumers(ClaudeBase):
    """Methods that list, move and delete consumers."""

    @method(read_only=True, one_of=STREAM, completes=LIST_NAMES)
    async def consumers_list(
        self,
        **where: Unpack[StreamAddress],
    ) -> events.Consumers:
        """List the consumers of a stream, each with its position and lag."""
        stream = await self.stream_named(where)
        rows = await consumers.all_of(self.db, stream.key)
        return events.Consumers(
            stream_id=ids.text(stream.id),
            total_events=stream.next_seq,
            consumers=[
                events.ConsumerInfo(
                    consumer=entry.name,
                    position=entry.position,
                    lag=max(stream.next_seq - entry.position, 0),
                    updated_at=entry.updated_at,
                )
                for entry in rows
            ],
        )

    @method(one_of=STREAM, completes=LIST_NAMES)
    async def consumers_ack(
        self,
        consumer: Name,
        seq: Seq,
        **where: Unpack[StreamAddress],
    ) -> events.ConsumerMoved:
        """Acknowledge an event and all before it for a consumer.

        Args:
            consumer: The consumer's name.
            seq: The sequence number of the last event that was processed.
        """
        stream = await self.stream_named(where)
        position = await self.pages.acknowledge(stream, consumer, seq)
        return events.ConsumerMoved(
            stream_id=ids.text(stream.id), consumer=consumer, position=position
        )

    @method(one_of=STREAM, completes=LIST_NAMES)
    async def consumers_reset(
        self,
        consumer: Name,
        seq: Seq = 0,
        **where: Unpack[StreamAddress],
    ) -> events.ConsumerMoved:
        """Move a consumer to an event, forward or back.

        Args:
            consumer: The consumer's name.
            seq: The sequence number of the next event that the consumer gets.
        """
        stream = await self.stream_named(where)
        position, now = min(seq, stream.next_seq), int(time.time())
        async with self.pages.locks.held(stream.key, consumer):
            await self.db.transaction(
                lambda tx: consumers.set_position(tx, stream.key, consumer, position, now)
            )
        return events.ConsumerMoved(
            stream_id=ids.text(stream.id), consumer=consumer, position=position
        )

    @method(destructive=True, one_of=STREAM, completes=LIST_NAMES)
    async def consumers_delete(
        self,
        consumer: Name,
        **where: Unpack[StreamAddress],
    ) -> events.ConsumerDeleted:
        """Delete a consumer. The events of the stream stay.

        Args:
            consumer: The consumer's name.
        """
        stream = await self.stream_named(where)
        async with self.pages.locks.held(stream.key, consumer):
            deleted = await self.db.transaction(
                lambda tx: consumers.delete(tx, stream.key, consumer)
            )
        if not deleted:
            names = [entry.name for entry in await consumers.all_of(self.db, stream.key)]
            raise NotFound(f"this stream has no consumer '{consumer}'", available=names)
        return events.ConsumerDeleted(stream_id=ids.text(stream.id), consumer=consumer)
