"""The search: latency of a first hit, cost for durable pushes, time and size of the index.

`python -m tests.bench.search [EVENTS]`; 1,000,000 events unless told otherwise. A push stores a
tool result of 200 characters and its event, as a chat does. The latency is compared with SQLite's
LIKE over all texts. The cost of indexing is the ratio of pushes per second, with and without it.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.sessions import SESSIONS, Columns
from hubd.plugins.claudecode.tables import MIGRATIONS
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Database, Tx
from hubd.storage.search.searching import Filters
from hubd.storage.search.service import Search
from hubd.storage.search.source import SearchSource
from hubd.storage.search.text import terms_of
from hubd.storage.streams import streams
from hubd.wire.handle import WireHandle

EVENTS = 1_000_000
BATCH = 500
PUSHES = 8000
PRODUCERS = 16
ROUNDS = 7
RUNS = 5
HANDLE = WireHandle("claudecode", "1.0.0", "chat_event")
WORDS = [
    "".join(random.Random(number).choices("etaoinshrdlu", k=random.Random(number).randint(3, 9)))
    for number in range(5000)
]
QUERIES = {
    "a word in one text": "zebra",
    "a word in many texts": WORDS[3],
    "two words": f"{WORDS[3]} {WORDS[40]}",
    "a phrase": f'"{WORDS[3]} {WORDS[40]}"',
    "two characters": "斑马",
    "no text": "xylophone",
}


def text() -> str:
    """Return about 200 characters of words, some of them common."""
    return " ".join(WORDS[int(random.paretovariate(0.6)) % len(WORDS)] for _ in range(32))


class Chat:
    """A chat that pushes events as fast as they are on disk."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._newest: tuple[Place, int] | None = None

    async def begin(self, name: str) -> None:
        def build(tx: Tx) -> None:
            self._session = SESSIONS.create(tx, name, Columns("/"), 0)
            self._origin = tree.origin(tx, HANDLE)
            stream = streams.create(tx, self._session.id, self._session.tree, 0)
            self._stream = stream.key
            head = store.place_of(tx, self._session.head)
            streams.start(tx, stream.key, tree.append(tx, head, tree.text("hi"), 0), 0)

        await self._db.transaction(build)

    def push(self, tx: Tx, output: str) -> None:
        now = int(time.time())
        block = {"type": "tool_result", "tool_use_id": "t", "content": output}
        data = {"block": block}
        session = self._session
        store.add_blob(tx, session.tree, session.id, "tool_result", data, now)
        place = streams.push(tx, self._stream, self._origin, "tool_result", "{}", now, self._newest)
        self._newest = (place, self._newest[1] + 1 if self._newest else 0)

    async def push_one_by_one(self, count: int) -> None:
        for _ in range(count):
            output = text()
            await self._db.transaction(partial(self.push, output=output))


def sources() -> dict[str, SearchSource]:
    """Return the sources of the plugins that a chat writes to."""
    return {
        f"{plugin.namespace}.{source.name}": source
        for plugin in (Arbor(), ClaudeCode())
        for source in plugin.search_sources()
    }


async def fill(chat: Chat, db: Database, events: int) -> None:
    for start in range(0, events, BATCH):
        outputs = [text() for _ in range(min(BATCH, events - start))]
        if start == 0:
            outputs[0] += " zebra 斑马"

        def push(tx: Tx, outputs: list[str] = outputs) -> None:
            for output in outputs:
                chat.push(tx, output)

        await db.transaction(push)


async def overhead(db: Database) -> None:
    chats = [Chat(db) for _ in range(PRODUCERS)]
    for number, chat in enumerate(chats):
        await chat.begin(f"pusher {number}")

    async def push() -> float:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for chat in chats:
                group.create_task(chat.push_one_by_one(PUSHES // PRODUCERS))
        return PUSHES / (time.perf_counter() - began)

    rates: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(ROUNDS + 1):
        rates["without"].append(await push())
        async with Search(db, sources) as search:
            await search.caught_up()
            rates["with"].append(await push())
            await search.caught_up()
    # The first round warms up.
    medians = {name: statistics.median(values[1:]) for name, values in rates.items()}
    share = 100 * (1 - medians["with"] / medians["without"])
    print(f"\npushes of {PRODUCERS} chats  (target: at most 5 % slower)")
    for name, rate in medians.items():
        print(f"  {name + ' the index':<20} {rate:>8,.0f} /s")
    print(f"  indexing costs {share:.1f} % of the pushes")


async def latencies(db: Database, search: Search) -> None:
    print("\nfirst hit, median of 5  (LIKE: SQLite over all texts)")
    like = "SELECT key FROM claudecode_blobs WHERE data LIKE ? ORDER BY key DESC LIMIT 1"
    for name, query in QUERIES.items():
        own = await _median(partial(search.query, terms_of(query), Filters(), 1))
        word = terms_of(query)[0]
        scan = await _median(partial(db.fetch_all, like, f"%{word}%"), runs=1)
        print(f"  {name:<22} {1000 * own:>8.1f} ms   LIKE {1000 * scan:>8.1f} ms")


def _size(path: Path) -> float:
    """Return the MiB of a database and its log."""
    return sum(Path(f"{path}{end}").stat().st_size for end in ("", "-wal")) / 1024**2


async def _median(work: Callable[[], Awaitable[object]], runs: int = RUNS) -> float:
    samples = []
    for _ in range(runs):
        began = time.perf_counter()
        await work()
        samples.append(time.perf_counter() - began)
    return statistics.median(samples)


async def main(events: int) -> None:
    random.seed(1)
    with tempfile.TemporaryDirectory() as directory:
        async with Database(Path(directory, "hub.db")) as db:
            await db.migrate("claudecode", MIGRATIONS)
            chat = Chat(db)
            await chat.begin("filler")
            await fill(chat, db, events)
            began = time.perf_counter()
            async with Search(db, sources) as search:
                await search.caught_up()
                seconds = time.perf_counter() - began
                size, database = (_size(path) for path in (search.path, db.path))
                print(f"{events:,} events indexed in {seconds:.1f} s ({events / seconds:,.0f} /s)")
                print(f"index {size:,.0f} MiB, database {database:,.0f} MiB")
                await latencies(db, search)
            await overhead(db)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS))
