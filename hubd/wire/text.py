"""Short texts for people: cut a text, and suggest the names nearest to a misspelt one.

synapse imports this module on every call, so it imports nothing at the top.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Only the start of a misspelt word is compared: it comes from outside and may be huge.
_COMPARED = 100


def shorten(text: str, length: int) -> str:
    """Return the text, cut to at most `length` characters; a cut text ends with `…`."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def nearest_names(word: str, names: "Iterable[str]", most: int = 1) -> list[str]:
    """Return the names most like a word, the nearest first.

    Letter case, and the difference between `-` and `_`, do not count.
    """
    from difflib import get_close_matches

    folded = {_fold(name): name for name in names}
    close = get_close_matches(_fold(word[:_COMPARED]), folded, n=most, cutoff=0.6)
    return [folded[name] for name in close]


def did_you_mean(word: str, names: "Iterable[str]", most: int = 1) -> str:
    """Return a question that suggests the nearest names, or an empty text."""
    return suggestion(nearest_names(word, names, most))


def suggestion(names: "list[str]") -> str:
    """Return a question that suggests these names, or an empty text if there are none."""
    return f"Did you mean {' or '.join(names)}?" if names else ""


def _fold(name: str) -> str:
    return name.lower().replace("_", "-")
