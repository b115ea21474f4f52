"""A database as months of work leave it: sessions with messages, tool calls and their results.

The texts are parts of the standard library's source and prose, and sentences of several languages.
"""

import random
import sysconfig
import time
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.sessions import SESSIONS, Columns
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams
from hubd.wire.handle import WireHandle

SESSIONS_COUNT = 1000
# Events of one transaction.
BATCH = 2000
DAYS = 180
POOL_CHARACTERS = 8_000_000
TOOLS = ("Bash", "Read", "Grep", "Edit", "WebFetch")
# In one of a hundred thousand texts, and in one.
RARE = "quetzalcoatlus"
ONCE = "zebrafink"
HANDLE = WireHandle("claudecode", "1.0.0", "chat_event")
SENTENCES = (
    "Der Fehler tritt nur auf, wenn die Datenbank während der Prüfung geschlossen wird. ",
    "Le serveur répond trop lentement, donc la requête échoue après trente secondes. ",
    "El archivo no existe todavía; créalo antes de ejecutar la prueba otra vez. ",
    "Сервер не отвечает, потому что соединение закрыто раньше времени. ",
    "服务器没有响应,因为连接在超时之前就被关闭了。请再试一次。",
    "データベースを開く前に、設定ファイルを確認してください。",
    "الخادم لا يستجيب لأن الاتصال أغلق قبل انتهاء المهلة. ",
    "서버가 응답하지 않습니다. 연결이 시간 초과 전에 닫혔습니다. ",
)


@cache
def pool() -> str:
    """Return a long text: source code and its prose."""
    folder = Path(sysconfig.get_path("stdlib"))
    parts: list[str] = []
    length = 0
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("[a-m]*/*.py")):
        part = path.read_text(errors="replace")
        parts.append(part)
        length += len(part)
        if length > POOL_CHARACTERS:
            break
    return "".join(parts)


def text(length: int) -> str:
    """Return a part of the pool, or in one of eight cases sentences of another language."""
    if random.random() < 0.125:
        return (random.choice(SENTENCES) + random.choice(SENTENCES))[:length]
    start = random.randrange(len(pool()) - length)
    return pool()[start : start + length]


def blobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the types and the data of a chat's blobs without end."""
    number = 0
    while True:
        for role in ("user", "assistant"):
            content = [{"type": "text", "text": text(random.randint(40, 300))}]
            yield "message", {"role": role, "content": content}
        for _ in range(3):
            number += 1
            call = f"toolu_{number}"
            given = {"command": text(60), "description": text(30)}
            name = random.choice(TOOLS)
            block = {"type": "tool_use", "id": call, "name": name, "input": given}
            yield "tool_use", {"block": block}
            output = text(random.randint(50, 500))
            result = {"type": "tool_result", "tool_use_id": call, "content": output}
            yield "tool_result", {"block": result}
        yield "thinking", {"block": {"type": "thinking", "thinking": text(200)}}


class Chat:
    """A session with a chat that stores blobs and pushes their events."""

    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self.name = name
        self._newest: tuple[Place, int] | None = None
        self._blobs = blobs()

    def begin(self, tx: Tx) -> None:
        """Create the session and its stream."""
        self._session = SESSIONS.create(tx, self.name, Columns("/"), 0)
        self._origin = tree.origin(tx, HANDLE)
        stream = streams.create(tx, self._session.id, self._session.tree, 0)
        self._stream = stream.key
        head = store.place_of(tx, self._session.head)
        streams.start(tx, stream.key, tree.append(tx, head, tree.text("hi"), 0), 0)

    def push(self, tx: Tx, now: int, word: str = "") -> None:
        """Store the next blob and its event."""
        kind, data = next(self._blobs)
        if word:
            kind, data = "message", {"role": "user", "content": [{"type": "text", "text": word}]}
        session = self._session
        store.add_blob(tx, session.tree, session.id, kind, data, now)
        place = streams.push(tx, self._stream, self._origin, kind, "{}", now, self._newest)
        self._newest = (place, self._newest[1] + 1 if self._newest else 0)


async def fill(db: Database, events: int) -> None:
    """Store the events of a thousand sessions, over half a year."""
    chats = [Chat(db, f"session {number}") for number in range(min(SESSIONS_COUNT, events))]
    for chat in chats:
        await db.transaction(chat.begin)
    first = int(time.time()) - DAYS * 86400
    each = max(events // len(chats), 1)

    def push(tx: Tx, start: int) -> None:
        for number in range(start, min(start + BATCH, events)):
            now = first + number * (DAYS * 86400 - 60) // events
            # A few sessions are in use at the same time.
            chat = chats[min(number // (each * 4) * 4 + number % 4, len(chats) - 1)]
            word = ONCE if number == events // 10 else RARE if number % 100_000 == 7 else ""
            chat.push(tx, now, f"{word} 斑马" if word else "")

    for start in range(0, events, BATCH):
        await db.transaction(partial(push, start=start))
