"""The pieces of the page, in order: its head, the list of branches, and each branch."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial
from typing import Final

from hubd.activation import Host
from hubd.conversations.export.blocks import text_of
from hubd.conversations.export.branches import MAX_NODES, Branch, Outline, forks_of, read_outline
from hubd.conversations.export.conversation import Conversation, without_secrets, written
from hubd.conversations.export.entries import Entry, Types, entries, path_steps
from hubd.conversations.export.html.entry import entry_html
from hubd.conversations.export.html.frame import branch_link, branch_start, head_html
from hubd.conversations.export.secrets import redact
from hubd.storage import ids
from hubd.storage.arbor import walk
from hubd.storage.arbor.walk import Node
from hubd.storage.database import Database

# Nodes that are read at a time. Their texts are in memory together.
PAGE: Final = 50
# The steps of a branch in which its title is searched: a root or a turn, and the question.
TITLE_STEPS: Final = 3
# Characters of a title in memory.
TITLE_LENGTH: Final = 200

END: Final = "<footer><p>Exported by hubd.</p></footer>\n</body>\n</html>"


async def page(
    db: Database, host: Host, conversation: Conversation, *, redacted: bool
) -> AsyncGenerator[str, None]:
    """Yield the pieces of the page. Use it inside `aclosing`."""
    writer = _Writer(db, host, redacted=redacted)
    yield head_html(writer.without_secrets(conversation.title))
    outline = await read_outline(db, conversation.tree, writer.types)
    if outline is not None:
        pieces = writer.branches(outline, conversation)
    else:
        pieces = writer.path(conversation)
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece
    yield END


class _Writer:
    """Writes the branches of one page."""

    def __init__(self, db: Database, host: Host, *, redacted: bool) -> None:
        self.types = Types(host)
        self._db = db
        self._host = host
        self._redacted = redacted
        # The titles of the branches, if there are several.
        self._titles: list[str] = []
        # By the key of a step: the numbers of the branches after it, and the names of heads there.
        self._forks: dict[int, list[int]] = {}
        self._heads: dict[int, list[str]] = {}

    def without_secrets(self, text: str) -> str:
        """Return a text without secrets, if the page has none."""
        return redact(text) if self._redacted else text

    async def path(self, conversation: Conversation) -> AsyncGenerator[str, None]:
        """Yield the entries of the path alone, for a tree with too many nodes."""
        yield f'<p class="note">The tree has more than {MAX_NODES:,} nodes. This is one path.</p>'
        async for nodes in path_steps(self._db, self.types, conversation.place):
            async with aclosing(self._steps(nodes)) as pieces:
                async for piece in pieces:
                    yield piece

    async def branches(
        self, outline: Outline, conversation: Conversation
    ) -> AsyncGenerator[str, None]:
        """Yield the list of branches, then the entries of each branch."""
        # In a thread, because a large tree takes a while.
        branches = await asyncio.to_thread(outline.branches, conversation.place.id)
        self._forks = forks_of(branches)
        for name, node_id in conversation.heads:
            step = outline.step(node_id)
            if step is not None:
                self._heads.setdefault(step, []).append(self.without_secrets(name))
        if len(branches) > 1:
            yield '<nav id="branches"><p>Branches:</p><ol>'
            for number, branch in enumerate(branches, 1):
                self._titles.append(await self._title(branch))
                yield f"<li>{self._link(number, branch.steps)}</li>"
            yield "</ol></nav>"
        for number, branch in enumerate(branches, 1):
            before = await walk.by_keys(self._db, [branch.fork]) if branch.fork else []
            if before:
                yield branch_start(number, self._titles[number - 1], _anchor(before[0]))
            else:
                yield f'<section id="b{number}">'
            for start in range(0, len(branch.steps), PAGE):
                nodes = await walk.by_keys(self._db, branch.steps[start : start + PAGE])
                async with aclosing(self._steps(nodes)) as pieces:
                    async for piece in pieces:
                        yield piece
            yield "</section>"

    async def _steps(self, nodes: Iterable[Node]) -> AsyncGenerator[str, None]:
        """Yield the entries of steps, and links to the branches that begin after them."""
        async with aclosing(entries(self._db, self._host, self.types, nodes)) as steps:
            async for node, of_step in steps:
                anchor, heads = _anchor(node), self._heads.get(node.key, [])
                for number, entry in enumerate(of_step):
                    # A message and its tool results have the same node.
                    write = partial(self._entry, anchor, heads) if number == 0 else self._results
                    yield await written(entry, write)
                if numbers := self._forks.get(node.key):
                    target = "" if of_step else f' id="{anchor}"'
                    links = " · ".join(self._link(number, ()) for number in numbers)
                    yield f'<p class="forks"{target}>Branches from here: {links}</p>'

    def _entry(self, anchor: str | None, heads: list[str], entry: Entry) -> str:
        return entry_html(without_secrets(entry) if self._redacted else entry, anchor, heads)

    def _results(self, entry: Entry) -> str:
        return self._entry(None, [], entry)

    def _link(self, number: int, steps: Iterable[int]) -> str:
        heads = [name for step in steps for name in self._heads.get(step, ())]
        return branch_link(number, self._titles[number - 1], heads)

    async def _title(self, branch: Branch) -> str:
        """Return the start of the first text of a branch."""
        nodes = await walk.by_keys(self._db, branch.steps[:TITLE_STEPS])
        async with aclosing(entries(self._db, self._host, self.types, nodes)) as steps:
            async for _, of_step in steps:
                for entry in of_step:
                    for block in entry.blocks:
                        if text := text_of(block).strip():
                            # Before it is cut: a part of a secret would not be recognised.
                            return self.without_secrets(text)[:TITLE_LENGTH]
        return ""


def _anchor(node: Node) -> str:
    """Return the name of a node in the page."""
    return f"n{ids.text(node.id)}"
