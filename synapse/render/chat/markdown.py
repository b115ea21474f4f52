"""Markdown as lines for a terminal.

The text comes from a model, so its cost is bounded: the caller gives texts of a few thousand
characters, markdown-it nests at most 20 levels, code is not highlighted (lexers can be made to
take exponential time), and links are written out instead of being hidden behind other text.

Colours are the terminal's own, without backgrounds, so they fit dark and light ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.text import Text

from hubd.wire.terminal import clean
from synapse.render.chat.diff import diff_style

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console

# A nested block has at least this width; deeper ones are not indented further.
MIN_WIDTH = 20
# A table with more cells is shown as it was written.
MAX_CELLS = 2000
MAX_COLUMNS = 20
CODE_STYLE = "cyan"
# A block that nests as deep is shown as it was written.
MAX_LEVEL = 18

_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


class Block:
    """A top-level block of a Markdown text."""

    def __init__(self, tokens: list[Token], source: str = "") -> None:
        self._tokens = tokens
        # The text of a block that markdown-it has not read to its end.
        self._source = source
        # The number of its first line in the text.
        self.first_line = tokens[0].map[0] if tokens[0].map else 0

    @property
    def fence(self) -> str:
        """The line that opens a block of code; empty for every other block."""
        token = self._tokens[0]
        return f"{token.markup}{token.info}" if token.type == "fence" else ""

    def lines(self, console: Console, width: int) -> list[Text]:
        """Return the block in lines that are at most `width` wide."""
        layout = _Layout(console)
        if self._source:
            return layout.as_written(self._source, width)
        return layout.blocks(self._tokens, width)


def parse(text: str) -> list[Block]:
    """Return the top-level blocks of a text."""
    tokens = _parser().parse(text)
    blocks = []
    for start, end in _ranges(tokens):
        inside = tokens[start:end]
        # At this depth markdown-it drops the rest of a block.
        is_cut = max(token.level for token in inside) >= MAX_LEVEL
        first, last = inside[0].map or (0, 0)
        source = "\n".join(text.split("\n")[first:last]) if is_cut else ""
        blocks.append(Block(inside, source))
    return blocks


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported at the first text, because it takes as long as the rest of the program.
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["strikethrough", "table"])


def _ranges(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of every block in a list of tokens of one level."""
    depth = start = 0
    for number, token in enumerate(tokens):
        if depth == 0:
            start = number
        depth += token.nesting
        if depth == 0:
            yield start, number + 1


class _Layout:
    """Lays out the blocks of a text."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def as_written(self, text: str, width: int) -> list[Text]:
        """Return the lines of a text without any formatting."""
        return self._wrapped(Text(clean(text.rstrip("\n"))), width)

    def blocks(self, tokens: list[Token], width: int, *, tight: bool = False) -> list[Text]:
        """Return the lines of all blocks, with an empty line between them unless `tight`."""
        lines: list[Text] = []
        for start, end in _ranges(tokens):
            block = self._block(tokens[start:end], width)
            if lines and block and not tight:
                lines.append(Text())
            lines += block
        return lines

    def _block(self, tokens: list[Token], width: int) -> list[Text]:
        first, inside = tokens[0], tokens[1:-1]
        match first.type:
            case "heading_open":
                text = self._inline(inside)
                text.stylize("bold underline" if first.tag == "h1" else "bold")
                return self._wrapped(text, width)
            case "paragraph_open":
                return self._wrapped(self._inline(inside), width)
            case "fence" | "code_block":
                return self._code(first.content, first.info.strip() == "diff", width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(first, inside, width)
            case "blockquote_open":
                room, prefix = _room(width, "│ ")
                quoted = self.blocks(inside, room)
                return [Text.assemble((prefix, "dim"), line) for line in quoted]
            case "hr":
                return [Text("─" * min(width, 40), style="dim")]
            case "table_open":
                return self._table(inside, width)
        return self._wrapped(Text(clean(first.content.rstrip("\n"))), width)

    def _code(self, code: str, is_diff: bool, width: int) -> list[Text]:
        room, prefix = _room(width, "  ")
        lines = []
        for line in clean(code).removesuffix("\n").split("\n"):
            style = diff_style(line) if is_diff else CODE_STYLE
            pieces = chop_cells(line.expandtabs(4), room) or [""]
            lines += [Text.assemble(prefix, (piece, style)) for piece in pieces]
        return lines

    def _list(self, opening: Token, inside: list[Token], width: int) -> list[Text]:
        lines: list[Text] = []
        number = opening.attrs.get("start", 1)
        is_ordered = opening.type == "ordered_list_open"
        for start, end in _ranges(inside):
            item = inside[start + 1 : end - 1]
            # markdown-it hides the paragraphs of a tight list.
            tight = not any(token.type == "paragraph_open" and not token.hidden for token in item)
            room, prefix = _room(width, f"{number}. " if is_ordered else "• ")
            drawn = self.blocks(item, room, tight=tight) or [Text()]
            if lines and not tight:
                lines.append(Text())
            blank = " " * len(prefix)
            lines += [
                Text.assemble((blank if row else prefix), line) for row, line in enumerate(drawn)
            ]
            number = int(number) + 1
        return lines

    def _table(self, inside: list[Token], width: int) -> list[Text]:
        rows: list[list[Text]] = []
        for number, token in enumerate(inside):
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                cell = self._inline([token])
                if inside[number - 1].type == "th_open":
                    cell.stylize("bold")
                rows[-1].append(cell)
        columns = max(map(len, rows), default=0)
        if columns > MAX_COLUMNS or columns * len(rows) > MAX_CELLS or 4 * columns > width:
            lines = [Text(" | ").join(row) for row in rows]
            return [piece for line in lines for piece in self._wrapped(line, width)]
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for header in rows[0]:
            table.add_column(header, overflow="fold")
        for row in rows[1:]:
            table.add_row(*row)
        options = self._console.options.update(width=width, highlight=False)
        return [
            Text.assemble(*((part.text, part.style or "") for part in line))
            for line in self._console.render_lines(table, options, pad=False)
        ]

    def _inline(self, tokens: list[Token]) -> Text:
        """Return the text of inline tokens; they are a flat list, however deep they nest."""
        text = Text()
        styles: list[str] = []
        targets: list[tuple[str, int]] = []
        for token in (child for parent in tokens for child in parent.children or ()):
            name = token.type.removesuffix("_open").removesuffix("_close")
            match token.type:
                case "softbreak" | "hardbreak":
                    text.append("\n")
                case "link_open":
                    targets.append((str(token.attrs.get("href", "")), len(text)))
                case "link_close":
                    target, start = targets.pop()
                    text.stylize("underline", start)
                    _append_target(text, target, start)
                case "image":
                    text.append(f"[image: {clean(token.content)}]")
                    _append_target(text, str(token.attrs.get("src", "")), len(text))
                case _ if name in _STYLES and token.nesting:
                    if token.nesting > 0:
                        styles.append(_STYLES[name])
                    else:
                        styles.remove(_STYLES[name])
                case _:
                    # A character reference may have added control characters.
                    style = CODE_STYLE if token.type == "code_inline" else ""
                    names = " ".join([*dict.fromkeys(styles), style]).strip()
                    text.append(clean(token.content), style=names)
        return text

    def _wrapped(self, text: Text, width: int) -> list[Text]:
        lines = [*text.wrap(self._console, width, tab_size=4)]
        for line in lines:
            line.rstrip()
        return lines


def _append_target(text: Text, target: str, start: int) -> None:
    """Append the target of a link, unless the text shows it already."""
    target = clean(target)
    if target and target not in text.plain[start:]:
        text.append(f" ({target})", style="dim")


def _room(width: int, prefix: str) -> tuple[int, str]:
    """Return the width beside a prefix, and the prefix; it is left out if the room is too small."""
    room = width - cell_len(prefix)
    return (room, prefix) if room >= MIN_WIDTH else (width, "")
