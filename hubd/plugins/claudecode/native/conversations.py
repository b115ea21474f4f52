"""Turn the entries of a session file into the messages of a conversation. No I/O.

Each entry names its parent, but following the parents from the last entry is not enough:

- A message of the assistant has one entry for each block. Tools run before the message has ended,
  so their results may come between the blocks.
- The parent of each result is the entry of its call. Of several calls in one message, all but one
  are beside the chain, together with their results.
- Messages that a summary keeps word for word are named only by the summary.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import chain as chained
from typing import Any, Literal

from hubd.errors import NotFound
from hubd.plugins.claudecode.native.entries import (
    NativeEntry,
    NativeHistory,
    NativeMark,
    ids_in,
)
from hubd.wire.lazy_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class NativeMessage:
    """A message in the format of the API.

    Attributes:
        role: The role. Tool results have the role `user`. `system` occurs only in the context
            of a tree that other plugins wrote to, never in a session file.
        content: The blocks of the API, unchanged.
        model: The model of an assistant's message; `<synthetic>` is the program itself.
        message_id: The API's id of an assistant's message.
        uuids: The ids of its entries in order.
        timestamp: The time of its first entry, as in the file.
        parent_uuid: The last entry of the message before it; None for the first message.
        is_api_error: Whether the program reports a failed request; such a message is not sent.
        node_id: The node of a message in a tree; None in a session file.
        handle: The handle of that node; None if the node is text.
    """

    role: Literal["user", "assistant", "system"]
    content: list[dict[str, Any]]
    model: str | None = None
    message_id: str | None = None
    uuids: tuple[str, ...] = ()
    timestamp: str | None = None
    parent_uuid: str | None = None
    is_api_error: bool = False
    node_id: bytes | None = None
    handle: str | None = None


@dataclass(frozen=True)
class NativeConversation:
    """The messages up to a leaf.

    Attributes:
        leaf: The last entry; None if there are no messages.
        messages: The messages in order.
        notes: Problems of the file in words; messages may be missing.
        summarised: The last entry before the summary, if the conversation starts with one. The
            earlier messages are the conversation of that leaf.
    """

    leaf: str | None = None
    messages: list[NativeMessage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    summarised: str | None = None


def conversation(history: NativeHistory, leaf: str | None = None) -> NativeConversation:
    """Return the conversation that ends with an entry, as it was when the entry was written.

    Args:
        history: The complete file.
        leaf: The id of an entry; by default the one from which the program would continue.

    Raises:
        NotFound: The file has no such entry.
    """
    index = _Index(history)
    if leaf is None:
        leaf = _tip(index, history.mark)
        if leaf is None:
            return NativeConversation()
    if leaf not in index.entries:
        raise NotFound(f"the session has no entry {leaf}")
    notes: list[str] = []
    path = index.path(leaf, notes)
    return NativeConversation(leaf, _messages(index, path), notes, _summarised(path[0]))


def leaves(history: NativeHistory) -> list[NativeEntry]:
    """Return the last entries of all branches of the conversation, the newest first."""
    index = _Index(history)
    return [index.entries[uuid] for _, uuid in _ends(index)]


class _Index:
    """The entries of a history by id, by message and by answered call."""

    def __init__(self, history: NativeHistory) -> None:
        self.entries = {entry.uuid: entry for entry in history.entries}
        self.place = {entry.uuid: place for place, entry in enumerate(history.entries)}
        # The entries of each message, and those that answer each call.
        self.parts: defaultdict[str, list[NativeEntry]] = defaultdict(list)
        self.answers: defaultdict[str, list[NativeEntry]] = defaultdict(list)
        for entry in self.entries.values():
            if not entry.is_shown:
                continue
            if entry.message_id is not None:
                self.parts[entry.message_id].append(entry)
            elif entry.is_results:
                for call in _answered(entry):
                    self.answers[call].append(entry)

    def path(self, leaf: str, notes: list[str]) -> list[NativeEntry]:
        """Return all entries up to a leaf, including those beside the chain."""
        walked = list(self._walk(leaf, notes))[::-1]
        kept = _kept_by_summary(walked)
        on_path = {entry.uuid for entry in walked}
        path: list[NativeEntry] = []
        for entry in walked:
            path.append(entry)
            for uuid in kept.get(entry.uuid, ()):
                if uuid not in self.entries:
                    notes.append(f"the summary keeps entry {uuid}, which is missing from the file")
                elif uuid not in on_path:
                    on_path.add(uuid)
                    path.append(self.entries[uuid])
        return self._with_parallels(path, on_path, self.place[leaf])

    def _walk(self, leaf: str, notes: list[str]) -> Iterator[NativeEntry]:
        seen: set[str] = set()
        entry: NativeEntry | None = self.entries[leaf]
        while entry is not None:
            seen.add(entry.uuid)
            yield entry
            parent = entry.parent_uuid
            if parent in seen:
                notes.append(f"entry {entry.uuid} follows {parent}, which follows it")
                return
            if parent is not None and parent not in self.entries:
                notes.append(f"entry {entry.uuid} follows {parent}, which is missing from the file")
            entry = self.entries.get(parent) if parent is not None else None

    def _with_parallels(
        self, path: list[NativeEntry], on_path: set[str], end: int
    ) -> list[NativeEntry]:
        """Add the calls and results beside the path that belong to its messages, up to an end."""
        last = {entry.message_id: entry.uuid for entry in path if entry.message_id is not None}
        answered = {call for entry in path if entry.is_results for call in _answered(entry)}
        full_path: list[NativeEntry] = []
        for entry in path:
            full_path.append(entry)
            if entry.message_id is None or last[entry.message_id] != entry.uuid:
                continue
            parts = self.parts[entry.message_id]
            calls = {call for part in parts for call in ids_in(part.blocks, "tool_use", "id")}
            results = (result for call in calls for result in self.answers[call])
            beside = {each.uuid for each in chained(parts, results)} - on_path
            for uuid in sorted(beside, key=self.place.__getitem__):
                each = self.entries[uuid]
                is_answered = each.is_results and answered.issuperset(_answered(each))
                if is_answered or self.place[uuid] > end:
                    continue
                if self.last_shown(each.parent_uuid) in on_path:
                    on_path.add(uuid)
                    answered.update(_answered(each))
                    full_path.append(each)
        return full_path

    def last_shown(self, uuid: str | None) -> str | None:
        """Return the nearest visible entry at or before an entry."""
        seen: set[str] = set()
        while uuid in self.entries and uuid not in seen:
            seen.add(uuid)
            entry = self.entries[uuid]
            if entry.is_shown:
                return uuid
            uuid = entry.parent_uuid
        return None


def _tip(index: _Index, mark: NativeMark | None) -> str | None:
    """Return the entry from which the program would continue: after its mark, or the last one."""
    if mark is None or (mark.uuid is not None and mark.uuid not in index.entries):
        return max(_last_shown(index), default=(0, None))[1]
    for place, end in _ends(index):
        if place < mark.place and (mark.is_explicit or mark.uuid is None):
            continue
        if mark.uuid is None or any(each.uuid == mark.uuid for each in index.path(end, [])):
            return end
    return index.last_shown(mark.uuid)


def _ends(index: _Index) -> Iterator[tuple[int, str]]:
    """Yield the last entries of branches with their places, the newest first.

    A result beside the path of another branch is not an end, and neither is the entry before a
    summary.
    """
    candidates = _last_shown(index)
    passed = _passed(index, (end for _, end in candidates))
    ends = sorted((each for each in candidates if each[1] not in passed), reverse=True)
    covered: set[str] = set()
    # In a circle each entry comes before each other one.
    for place, end in ends or sorted(candidates)[-1:]:
        if end not in covered:
            covered |= {entry.uuid for entry in index.path(end, [])}
            yield place, end


def _last_shown(index: _Index) -> list[tuple[int, str]]:
    """Return the last visible entry of each branch, with the place of the branch's last entry."""
    parents = {entry.parent_uuid for entry in index.entries.values()}
    places: dict[str, int] = {}
    for uuid, place in index.place.items():
        visible = index.last_shown(uuid) if uuid not in parents else None
        if visible is not None:
            places[visible] = place
    if not places:
        # Entries that name each other in a circle have no end; the newest one counts.
        visible_ids = [uuid for uuid, entry in index.entries.items() if entry.is_shown]
        places = {uuid: index.place[uuid] for uuid in visible_ids[-1:]}
    return [(place, uuid) for uuid, place in places.items()]


def _passed(index: _Index, uuids: Iterable[str]) -> set[str]:
    """Return all entries before any of these, or before a summary."""
    summaries = filter(None, map(_summarised, index.entries.values()))
    passed = {uuid for uuid in (index.last_shown(each) for each in summaries) if uuid}
    for uuid in uuids:
        parent = index.entries[uuid].parent_uuid
        while parent in index.entries and parent not in passed:
            passed.add(parent)
            parent = index.entries[parent].parent_uuid
    return passed


def _summarised(entry: NativeEntry) -> str | None:
    """Return the last entry that a summary replaces, if the summary starts here."""
    parent = entry.raw.get("logicalParentUuid") if entry.kind == "system" else None
    return parent if isinstance(parent, str) else None


def _kept_by_summary(path: list[NativeEntry]) -> dict[str, list[str]]:
    """Return the ids of the entries that summaries keep, by the entry that they follow."""
    kept: dict[str, list[str]] = {}
    for entry in path:
        metadata = entry.raw.get("compactMetadata") if entry.kind == "system" else None
        preserved = metadata.get("preservedMessages") if isinstance(metadata, dict) else None
        if isinstance(preserved, dict) and isinstance(preserved.get("uuids"), list):
            uuids = [uuid for uuid in preserved["uuids"] if isinstance(uuid, str)]
            kept[str(preserved.get("anchorUuid"))] = uuids
    return kept


def _messages(index: _Index, path: list[NativeEntry]) -> list[NativeMessage]:
    """Return the messages of a path. Entries of one message are joined, and adjacent results."""
    groups: list[list[NativeEntry]] = []
    by_message: dict[str, list[NativeEntry]] = {}
    for entry in path:
        if not entry.is_shown:
            continue
        if entry.message_id in by_message:
            by_message[entry.message_id].append(entry)
        elif entry.is_results and groups and groups[-1][-1].is_results:
            groups[-1].append(entry)
        else:
            groups.append([entry])
            if entry.message_id is not None:
                by_message[entry.message_id] = groups[-1]
    messages: list[NativeMessage] = []
    for group in groups:
        group.sort(key=lambda entry: index.place[entry.uuid])
        messages.append(_message(group, messages[-1].uuids[-1] if messages else None))
    return messages


def _message(group: list[NativeEntry], parent: str | None) -> NativeMessage:
    first = group[0]
    model = first.message.get("model") if first.kind == "assistant" else None
    return NativeMessage(
        role="assistant" if first.kind == "assistant" else "user",
        content=list(chained(*(entry.blocks for entry in group))),
        model=model if isinstance(model, str) else None,
        message_id=first.message_id,
        uuids=tuple(entry.uuid for entry in group),
        timestamp=first.timestamp or None,
        parent_uuid=parent,
        is_api_error=first.raw.get("isApiErrorMessage") is True,
    )


def _answered(entry: NativeEntry) -> Iterator[str]:
    return ids_in(entry.blocks, "tool_result", "tool_use_id")
