"""Google-style docstrings: the first line, the paragraphs after it, and `Args:`."""

import inspect
from typing import Final

from hubd.wire.lazy_pattern import lazy_pattern

_ARGUMENT: Final = lazy_pattern(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
_SECTION: Final = lazy_pattern(r"(Args|Returns|Yields|Raises|Example|Examples|Note|Notes):\s*")


def split_docstring(text: str) -> tuple[str, str, dict[str, str]]:
    """Return the first line, the paragraphs outside of sections, and the texts of `Args:`."""
    summary, _, rest = inspect.cleandoc(text).partition("\n")
    details: list[str] = []
    texts: dict[str, str] = {}
    section = argument = ""
    for line in rest.splitlines():
        if header := _SECTION.fullmatch(line):
            section = header[1]
        elif not section or (line and not line.startswith(" ")):
            section = ""
            details.append(line)
        elif section == "Args" and line.strip():
            start = _ARGUMENT.fullmatch(line.strip())
            if start and len(line) - len(line.lstrip()) <= 4:
                argument, texts[start[1]] = start[1], start[2]
            elif argument:
                texts[argument] += " " + line.strip()
    return summary.strip(), "\n".join(details).strip(), texts
