"""Read the entries of a session file, line by line."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import Any, BinaryIO

from hubd.errors import Conflict
from hubd.wire.lazy_dataclass import dataclass


@dataclass(frozen=True)
class NativeEntry:
    """A line of the file that is part of the chain of entries.

    Attributes:
        kind: `user`, `assistant`, `attachment`, `system`, or a kind of a later version.
        uuid: The id of the entry, the same as in the program's output.
        parent_uuid: The entry before it; None for the first one, and for the first of a summary.
        is_sidechain: Whether a subagent wrote it.
        is_meta: Whether the program added it itself and does not show it.
        timestamp: The time in the file, or an empty text.
        message: The message of the API, in `user` and `assistant` entries; else empty.
        raw: The complete line.
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
        """Whether a person sees it as part of the conversation."""
        return self.kind in ("user", "assistant") and not (self.is_meta or self.is_sidechain)

    @property
    def message_id(self) -> str | None:
        """The API's id of an assistant's message; all entries of the message have it."""
        value = self.message.get("id") if self.kind == "assistant" else None
        return value if isinstance(value, str) and value else None

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content of its message; plain text is one block."""
        content = self.message.get("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if content else []
        return list(content or ())

    @property
    def is_results(self) -> bool:
        """Whether it is a user's message that consists of tool results only."""
        blocks = self.blocks if self.kind == "user" else []
        return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


@dataclass(frozen=True)
class NativeMark:
    """The program's mark of the entry from which the conversation continues.

    Attributes:
        uuid: The entry, or None after the conversation was cleared.
        is_explicit: Whether the user went back to it; entries after it no longer count.
        place: The number of entries before the mark.
    """

    uuid: str | None
    is_explicit: bool
    place: int


@dataclass(frozen=True)
class NativeHistory:
    """The content of a session file.

    Attributes:
        entries: The entries in the order of the file, without the program's bookkeeping.
        corrupt: The number of lines that are neither entries nor bookkeeping.
        offset: The end of the part that was read; a later reading continues there.
        mark: The newest mark, if there is one.
    """

    entries: tuple[NativeEntry, ...] = field(default=(), repr=False)
    corrupt: int = 0
    offset: int = 0
    mark: NativeMark | None = None

    def then(self, later: "NativeHistory") -> "NativeHistory":
        """Return this history followed by the part that was read from its offset on."""
        mark = self.mark
        if later.mark is not None:
            mark = replace(later.mark, place=len(self.entries) + later.mark.place)
        entries = self.entries + later.entries
        return NativeHistory(entries, self.corrupt + later.corrupt, later.offset, mark)


def read_history(path: Path, from_offset: int = 0) -> NativeHistory:
    """Read the entries of a session file, even while the program writes it.

    An incomplete last line is left for the next reading. Memory holds the entries and the longest
    line.

    Args:
        path: The file.
        from_offset: The `offset` of an earlier reading; only the part after it is read.

    Raises:
        Conflict: The file is shorter than the offset, so it was rewritten.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < from_offset:
            raise Conflict(
                f"{path} was rewritten: it is shorter than before",
                suggestion="Read it again from the beginning",
            )
        file.seek(from_offset)
        return read_lines(file, from_offset)


def read_lines(lines: Iterable[bytes], offset: int = 0) -> NativeHistory:
    """Read lines that start at an offset. An incomplete last line is left out."""
    entries: list[NativeEntry] = []
    corrupt = 0
    mark: NativeMark | None = None
    for line in lines:
        try:
            raw = parse(line)
            entry = as_entry(raw)
        except ValueError:
            # A line without a line end that is a JSON object is complete: no prefix of one is.
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
    """Return the object of a line; an empty object for an empty line.

    Raises:
        ValueError: The line is not a JSON object.
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
    """Return the entry of an object; None for bookkeeping.

    Raises:
        ValueError: A required field of an entry is missing.
    """
    kind = raw.get("type")
    has_message = kind in ("user", "assistant")
    uuid, parent = raw.get("uuid"), raw.get("parentUuid")
    if not has_message and "parentUuid" not in raw:
        return None
    if not (isinstance(kind, str) and isinstance(uuid, str) and isinstance(parent, str | None)):
        raise ValueError("an entry without an id or a parent")
    message = raw.get("message")
    if has_message and not (isinstance(message, dict) and _is_content(message.get("content"))):
        raise ValueError("a message without content")
    timestamp = raw.get("timestamp")
    return NativeEntry(
        kind=kind,
        uuid=uuid,
        parent_uuid=parent or None,
        is_sidechain=bool(raw.get("isSidechain")),
        is_meta=bool(raw.get("isMeta")),
        timestamp=timestamp if isinstance(timestamp, str) else "",
        message=message if has_message and isinstance(message, dict) else {},
        raw=raw,
    )


def entry_at(file: BinaryIO, offset: int) -> NativeEntry | None:
    """Return the entry of the line at an offset; None for bookkeeping and damaged lines."""
    file.seek(offset)
    return entry_of(file.readline())


def entry_of(line: bytes) -> NativeEntry | None:
    """Return the entry of a line; None for bookkeeping and damaged lines."""
    try:
        return as_entry(parse(line))
    except ValueError:
        return None


def ids_in(blocks: list[dict[str, Any]], kind: str, key: str) -> Iterator[str]:
    """Yield the ids under a key of the blocks of one kind."""
    for block in blocks:
        value = block.get(key) if block.get("type") == kind else None
        if isinstance(value, str):
            yield value


def _is_content(content: object) -> bool:
    if isinstance(content, list):
        return all(isinstance(block, dict) for block in content)
    return isinstance(content, str)
