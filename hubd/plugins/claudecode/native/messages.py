"""The conversation that a session file holds: entries in, messages out. It does no I/O.

Every entry names the one before it, but walking back from the last one is not enough:

- A message of the assistant is an entry for each block. Tools run before it has ended, so their
  results may stand between the blocks.
- The result of each call names the entry of the call as the one before it. Of several calls in
  one message all but one are beside the chain, with their results.
- What was kept word for word when a conversation was summarised is named by the summary only.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain as chained
from typing import Any, Literal

from hubd.errors import NotFound
from hubd.plugins.claudecode.native.history import (
    NativeEntry,
    NativeHistory,
    NativeMark,
    ids_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeMessage:
    """One message as the API would have it.

    Attributes:
        role: Who said it. What tools gave is said by the user. `system` occurs only in the
            context of a tree that other plugins wrote to, never in a session file.
        content: The blocks of the API, exactly.
        model: Of the assistant's messages; `<synthetic>` is the program itself.
        message_id: The API's id of an assistant's message.
        uuids: The entries that it is made of, in order.
        timestamp: Of its first entry, as it stands in the file.
        parent_uuid: The last entry of the message before it; None for the first.
        is_api_error: The program itself, about a request that failed; it is never sent.
        node_id: The node of a message that was read from a tree; None in a session file.
        handle: The handle of that node; None if it is text.
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


@dataclass(frozen=True, slots=True)
class NativeConversation:
    """The messages up to a leaf.

    Attributes:
        leaf: The entry that it ends with; None if nothing was said.
        messages: The first one first.
        notes: What is wrong with the file, for people: the messages may not be all.
        summarised: The last entry before the summary that it begins with, if it does; what was
            said until then is the conversation of that leaf.
    """

    leaf: str | None = None
    messages: list[NativeMessage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    summarised: str | None = None


def conversation(history: NativeHistory, leaf: str | None = None) -> NativeConversation:
    """The conversation that ends with an entry, as it was when that was written.

    Args:
        history: The file, read from its beginning.
        leaf: The id of any entry; without one, where the program itself would go on.

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
    """The ends of all branches of the conversation, the one that was written last first."""
    index = _Index(history)
    return [index.entries[uuid] for _, uuid in _ends(index)]


class _Index:
    """The entries of a history by what one looks for."""

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
        """All entries up to a leaf, with those beside the chain where they belong."""
        walked = list(self._walk(leaf, notes))[::-1]
        kept = _kept_by_summary(walked)
        on_path = {entry.uuid for entry in walked}
        path: list[NativeEntry] = []
        for entry in walked:
            path.append(entry)
            for uuid in kept.get(entry.uuid, ()):
                if uuid not in self.entries:
                    notes.append(f"the summary keeps entry {uuid}, which the file lacks")
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
                notes.append(f"entry {entry.uuid} comes after {parent}, which comes after it")
                return
            if parent is not None and parent not in self.entries:
                notes.append(f"entry {entry.uuid} comes after {parent}, which the file lacks")
            entry = self.entries.get(parent) if parent is not None else None

    def _with_parallels(
        self, path: list[NativeEntry], on_path: set[str], end: int
    ) -> list[NativeEntry]:
        """Add the calls and results that grow beside the path from its messages, up to an end."""
        last = {entry.message_id: entry.uuid for entry in path if entry.message_id is not None}
        answered = {call for entry in path if entry.is_results for call in _answered(entry)}
        whole: list[NativeEntry] = []
        for entry in path:
            whole.append(entry)
            if entry.message_id is None or last[entry.message_id] != entry.uuid:
                continue
            parts = self.parts[entry.message_id]
            calls = {call for part in parts for call in ids_in(part.blocks, "tool_use", "id")}
            results = (result for call in calls for result in self.answers[call])
            beside = {each.uuid for each in chained(parts, results)} - on_path
            for uuid in sorted(beside, key=self.place.__getitem__):
                each = self.entries[uuid]
                is_known = each.is_results and answered.issuperset(_answered(each))
                if is_known or self.place[uuid] > end:
                    continue
                if self.last_shown(each.parent_uuid) in on_path:
                    on_path.add(uuid)
                    answered.update(_answered(each))
                    whole.append(each)
        return whole

    def last_shown(self, uuid: str | None) -> str | None:
        """The nearest entry at or before one that is shown."""
        seen: set[str] = set()
        while uuid in self.entries and uuid not in seen:
            seen.add(uuid)
            entry = self.entries[uuid]
            if entry.is_shown:
                return uuid
            uuid = entry.parent_uuid
        return None


def _tip(index: _Index, mark: NativeMark | None) -> str | None:
    """Where the program would go on: with what has grown from its mark, or else with the last."""
    if mark is None or (mark.uuid is not None and mark.uuid not in index.entries):
        return max(_last_words(index), default=(0, None))[1]
    for place, end in _ends(index):
        if place < mark.place and (mark.is_explicit or mark.uuid is None):
            continue
        if mark.uuid is None or any(each.uuid == mark.uuid for each in index.path(end, [])):
            return end
    return index.last_shown(mark.uuid)


def _ends(index: _Index) -> Iterator[tuple[int, str]]:
    """The ends of branches, the last one first, each with its place.

    A result beside the path of another end is no end, and neither is what a summary goes on from.
    """
    found = _last_words(index)
    passed = _passed(index, (end for _, end in found))
    ends = sorted((each for each in found if each[1] not in passed), reverse=True)
    covered: set[str] = set()
    # In a circle everything comes before everything.
    for place, end in ends or sorted(found)[-1:]:
        if end not in covered:
            covered |= {entry.uuid for entry in index.path(end, [])}
            yield place, end


def _last_words(index: _Index) -> list[tuple[int, str]]:
    """What was last said before every entry that nothing follows, with the place of that entry."""
    parents = {entry.parent_uuid for entry in index.entries.values()}
    places: dict[str, int] = {}
    for uuid, place in index.place.items():
        said = index.last_shown(uuid) if uuid not in parents else None
        if said is not None:
            places[said] = place
    if not places:
        # Entries that name each other in a circle have no end, but something was said last.
        shown = [uuid for uuid, entry in index.entries.items() if entry.is_shown]
        places = {uuid: index.place[uuid] for uuid in shown[-1:]}
    return [(place, said) for said, place in places.items()]


def _passed(index: _Index, uuids: Iterable[str]) -> set[str]:
    """All entries that come before any of these, or before a summary."""
    summaries = filter(None, map(_summarised, index.entries.values()))
    passed = {uuid for uuid in (index.last_shown(each) for each in summaries) if uuid}
    for uuid in uuids:
        parent = index.entries[uuid].parent_uuid
        while parent in index.entries and parent not in passed:
            passed.add(parent)
            parent = index.entries[parent].parent_uuid
    return passed


def _summarised(entry: NativeEntry) -> str | None:
    """The last entry that a summary stands for, if it begins here."""
    found = entry.raw.get("logicalParentUuid") if entry.kind == "system" else None
    return found if isinstance(found, str) else None


def _kept_by_summary(path: list[NativeEntry]) -> dict[str, list[str]]:
    """What summaries on a path have kept: after which entry it belongs, and the ids of it."""
    kept: dict[str, list[str]] = {}
    for entry in path:
        facts = entry.raw.get("compactMetadata") if entry.kind == "system" else None
        found = facts.get("preservedMessages") if isinstance(facts, dict) else None
        if isinstance(found, dict) and isinstance(found.get("uuids"), list):
            uuids = [uuid for uuid in found["uuids"] if isinstance(uuid, str)]
            kept[str(found.get("anchorUuid"))] = uuids
    return kept


def _messages(index: _Index, path: list[NativeEntry]) -> list[NativeMessage]:
    """The messages of a path: entries of one message joined, and so are results in a row."""
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
