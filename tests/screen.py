"""The lines that a terminal shows after all its output, without a terminal."""

import re

from rich.cells import cell_len

_TOKENS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|(?s:.)")
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def screen(text: str, columns: int | None, *, styles: bool = False) -> list[str]:
    """Return the lines that a terminal shows in the end, its scrollback included.

    It knows the sequences of Rich and of synapse's own drawing: styles, erasing, moving up, hiding
    the cursor. Text after a carriage return replaces the line. Any other control is an error.

    Args:
        text: The output.
        columns: The width of the terminal; None wraps no line.
        styles: Whether the sequences of styles stay in the lines.
    """
    rows, row, is_returned = [""], 0, False
    for token in _TOKENS.findall(text):
        if _STYLES.fullmatch(token):
            if styles:
                rows[row] += token
        elif token == "\n":
            row, is_returned = row + 1, True
            rows += [""] * (row + 1 - len(rows))
        elif token == "\r":
            is_returned = True
        elif re.fullmatch(r"\x1b\[2?K|\x1b\[J", token):
            rows[row] = "" if is_returned else rows[row]
            if token == "\x1b[J":
                del rows[row + 1 :]
        elif re.fullmatch(r"\x1b\[\d*A", token):
            row -= int(token[2:-1] or 1)
            assert row >= 0, text
        elif not re.fullmatch(r"\x1b\[\?25[hl]", token):
            assert token >= " " or token == "\t", f"{token!r} in {text!r}"
            if is_returned and _width(rows[row]):
                rows[row] = ""
            is_returned = False
            if columns is not None and _width(rows[row] + token) > columns:
                row += 1
                rows += [""] * (row + 1 - len(rows))
            rows[row] += token
    return [line.rstrip(" ") for line in rows]


def _width(line: str) -> int:
    return cell_len(_STYLES.sub("", line))
