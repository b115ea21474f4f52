"""The entries of one session file, read line by line. Knows lines, and no conversation."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hubd.errors import Conflict


@dataclass(frozen=True, slots=True)
class NativeEntry:
    """One line of the file that has a place in the chain of entries.

    Attributes:
        kind: `user`, `assistant`, `attachment`, `system`, or what versions to come may add.
        uuid: Its id, the same as on the program's output.
        parent_uuid: The entry before it; None for the first, and for the first of a summary.
        is_sidechain: Said by a subagent.
        is_meta: Added by the program itself, and never shown.
        timestamp: As it stands in the file; empty if it is not there.
        message: The message of the API, of `user` and `assistant` entries; else empty.
        raw: The whole line.
    """

    kind: str
    uuid: str
    parent_uuid: str | None
    is_sidechain: bool
    is_meta: bool
    timestamp: str
    message: dict[str, Any]
    raw: dict[str, Any]

    @property
    def is_shown(self) -> bool:
        """Whether it is a part of the conversation that a person would see."""
        return self.kind in ("user", "assistant") and not (self.is_meta or self.is_sidechain)

    @property
    def message_id(self) -> str | None:
        """The API's id of an assistant's message, which all entries of the message share."""
        found = self.message.get("id") if self.kind == "assistant" else None
        return found if isinstance(found, str) and found else None

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content of its message; a plain text counts as one block."""
        content = self.message.get("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if content else []
        return list(content or ())

    @property
    def is_results(self) -> bool:
        """Whether it is a user's message that says nothing but what tools gave."""
        blocks = self.blocks if self.kind == "user" else []
        return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


@dataclass(frozen=True, slots=True)
class NativeMark:
    """Where the program says that the conversation stands; it goes on from there.

    Attributes:
        uuid: An entry, or None after the conversation was cleared.
        is_explicit: Somebody went back to it; what had come after it by then counts no more.
        place: How many entries of the history were written before the mark.
    """

    uuid: str | None
    is_explicit: bool
    place: int


@dataclass(frozen=True, slots=True)
class NativeHistory:
    """What was read of a session file.

    Attributes:
        entries: In the order of the file, without the program's bookkeeping.
        corrupt: How many lines were no entries and no bookkeeping either.
        offset: Up to where the file was read: where to go on when it has grown.
        mark: The newest one, if there is any.
    """

    entries: tuple[NativeEntry, ...] = field(default=(), repr=False)
    corrupt: int = 0
    offset: int = 0
    mark: NativeMark | None = None

    def then(self, later: "NativeHistory") -> "NativeHistory":
        """This history and what was read from its offset on, as if it had been read at once."""
        mark = self.mark
        if later.mark is not None:
            mark = replace(later.mark, place=len(self.entries) + later.mark.place)
        entries = self.entries + later.entries
        return NativeHistory(entries, self.corrupt + later.corrupt, later.offset, mark)


def read_history(path: Path, from_offset: int = 0) -> NativeHistory:
    """Read the entries of a session file, also while the program still writes it.

    A line that is only half there is left for the next time. Memory is needed for the entries
    that are kept and for the longest line.

    Args:
        path: The file.
        from_offset: The `offset` of an earlier reading; only what came after it is read.

    Raises:
        Conflict: The file is shorter than that, so it is not the file that was read before.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < from_offset:
            raise Conflict(
                f"{path} is shorter than it was: somebody has rewritten it",
                suggestion="Read it again from the beginning",
            )
        file.seek(from_offset)
        return read_lines(file, from_offset)


def read_lines(lines: Iterable[bytes], offset: int = 0) -> NativeHistory:
    """Read lines that begin at an offset; the last may be half there, and is left then."""
    entries: list[NativeEntry] = []
    corrupt = 0
    mark: NativeMark | None = None
    for line in lines:
        try:
            raw = parse(line)
            entry = as_entry(raw)
        except ValueError:
            # A line without its end is complete if it is an object: no beginning of one is one.
            if not line.endswith(b"\n"):
                break
            corrupt += 1
        else:
            if entry is not None:
                entries.append(entry)
            elif raw.get("type") == "last-prompt" and isinstance(
                raw.get("leafUuid", 0), str | None
            ):
                mark = NativeMark(raw["leafUuid"], raw.get("explicit") is True, len(entries))
        offset += len(line)
    return NativeHistory(tuple(entries), corrupt, offset, mark)


def parse(line: bytes) -> dict[str, Any]:
    """One line as an object; an empty one as an empty object.

    Raises:
        ValueError: It is none.
    """
    if not line.strip():
        return {}
    try:
        raw = json.loads(line.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(raw, dict):
        raise ValueError("not an object")
    return raw


def as_entry(raw: dict[str, Any]) -> NativeEntry | None:
    """An object as an entry; None for bookkeeping.

    Raises:
        ValueError: It lacks what an entry must have.
    """
    kind = raw.get("type")
    speaks = kind in ("user", "assistant")
    uuid, parent = raw.get("uuid"), raw.get("parentUuid")
    if not speaks and "parentUuid" not in raw:
        return None
    if not (isinstance(kind, str) and isinstance(uuid, str) and isinstance(parent, str | None)):
        raise ValueError("an entry without its place")
    message = raw.get("message")
    if speaks and not (isinstance(message, dict) and _is_content(message.get("content"))):
        raise ValueError("a message without content")
    timestamp = raw.get("timestamp")
    return NativeEntry(
        kind=kind,
        uuid=uuid,
        parent_uuid=parent or None,
        is_sidechain=bool(raw.get("isSidechain")),
        is_meta=bool(raw.get("isMeta")),
        timestamp=timestamp if isinstance(timestamp, str) else "",
        message=message if speaks and isinstance(message, dict) else {},
        raw=raw,
    )


def _as_mark(raw: dict[str, Any], place: int) -> NativeMark | None:
    if raw.get("type") != "last-prompt" or "leafUuid" not in raw:
        return None
    leaf = raw["leafUuid"]
    is_known = isinstance(leaf, str | None)
    return NativeMark(leaf, raw.get("explicit") is True, place) if is_known else None


def ids_in(blocks: list[dict[str, Any]], kind: str, key: str) -> Iterator[str]:
    """The ids that the blocks of a kind have under a key."""
    for block in blocks:
        found = block.get(key) if block.get("type") == kind else None
        if isinstance(found, str):
            yield found


def _is_content(content: object) -> bool:
    if isinstance(content, list):
        return all(isinstance(block, dict) for block in content)
    return isinstance(content, str)
