"""Make text safe for a terminal: remove control sequences, show invisible characters.

Text from a model, a file or another user may contain characters that a terminal obeys, that change
the order of the text, or that are invisible. Everything that synapse and hubd write to a terminal
passes through `clean` or, for JSON, `escape_json`.

Three kinds of invisible characters stay, because ordinary text needs them:

- A zero width joiner between emoji, and a joiner or non-joiner after a letter of a script that
  joins its letters (Arabic, Persian, the scripts of India).
- A left-to-right or right-to-left mark beside a Hebrew or Arabic letter. Such a mark orders text as
  the letter does, so it hides nothing that the letter would not.
- One variation selector after a visible character.

Anywhere else these characters are shown too: a run of them can carry a hidden message.
"""

from hubd.wire.lazy_pattern import lazy_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

# Whole sequences, in their 7-bit and 8-bit forms.
_SEQUENCES = lazy_pattern(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)
# Every control character except tab and newline.
_CONTROLS = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# Common characters that stay: a text of these and of printable ASCII needs no expressions.
_HARMLESS = dict.fromkeys(map(ord, "\t\n…–—·’“”‹›"))

# The sequences that set colours and other styles of text.
_STYLES = lazy_pattern(r"(\x1b\[[0-9;:]*m)")
# A colour by its number or its parts, then the style that hides text.
_COLOUR = lazy_pattern(r"[345]8[;:](?:5[;:][0-9]*|2(?:[;:][0-9]*){1,4})")
_CONCEALED = lazy_pattern(r"(?:^|[;:\[])0*8(?:[;:m]|$)")
# Ends all styles.
RESET = "\x1b[0m"

# Characters that `is_visible` checks at a time.
_PIECE = 65536

_PICTURES = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
# Scripts in which a letter's form depends on its neighbours.
_JOINING = (
    "\u0600-\u061b\u061d-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\u1b00-\u1bff\ua840-\uabff"
)
_RIGHT_TO_LEFT = "\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff"
_IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

# Invisible characters of a run that `clean` shows; the others are counted.
_MAX_NAMES = 16
# The longest run that is counted as one. A limit keeps the memory of the expression small.
_MAX_RUN = 4096

_INVISIBLE = lazy_pattern(
    "(?:"
    # Always shown: embeddings, overrides, isolates, zero width spaces, fillers, tags, separators.
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    f"|(?<![{_JOINING}])\u200c"
    f"|(?<![{_JOINING}{_PICTURES}\ufe0f])\u200d|(?<=[{_PICTURES}\ufe0f])\u200d(?![{_PICTURES}])"
    f"|(?<![{_RIGHT_TO_LEFT}])[\u200e\u200f](?![{_RIGHT_TO_LEFT}])"
    "|(?:(?<=[\\s\u200b-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef])|(?<![\\s\\S]))[\ufe00-\ufe0f]"
    f"|(?<![{_IDEOGRAPHS}])[\U000e0100-\U000e01ef]"
    f"){{1,{_MAX_RUN}}}+"
)


def clean(text: str) -> str:
    """Return the text without control characters, and with invisible ones as `‹U+202E›`.

    Of a long run of invisible characters, the first ones are shown and the others counted.
    """
    if text.isascii() and text.isprintable():
        return text
    rest = text.translate(_HARMLESS)
    if rest.isascii() and rest.isprintable():
        return text
    text = _CONTROLS.sub("", _SEQUENCES.sub("", text))
    return text if text.isascii() else _INVISIBLE.sub(_first_names, text)


def clean_output(text: str) -> str:
    """Return the output of a command that the user ran: `clean`, but colours and styles stay.

    Every other sequence is removed, such as those that move the cursor, set the title or write to
    the clipboard. A style that hides text is removed too.
    """
    parts = _STYLES.split(text)
    # Every second part is a sequence.
    parts[::2] = map(clean, parts[::2])
    parts[1::2] = map(_visible_style, parts[1::2])
    return "".join(parts)


def _visible_style(sequence: str) -> str:
    return "" if _CONCEALED.search(_COLOUR.sub("", sequence)) else sequence


def reveal(text: str) -> str:
    """Return the text with control and invisible characters as `‹U+001B›`; nothing is removed.

    For text that a person judges, such as a command that is about to run.
    """
    text = _CONTROLS.sub(_names, text)
    return text if text.isascii() else _INVISIBLE.sub(_names, text)


def is_visible(text: str) -> bool:
    """Return whether `reveal` would leave a text as it is."""
    # In pieces, because a regular expression lets no other thread run.
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return all(reveal(piece) == piece for piece in pieces)


def one_line(text: str) -> str:
    """Return the same as `clean`, on one line."""
    return " ".join(line.strip() for line in clean(text).splitlines() if line.strip())


def escape_json(text: str) -> str:
    """Return JSON text in which control and invisible characters are escapes."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return _INVISIBLE.sub(_escape, _CONTROLS.sub(_escape, text))


def _names(match: "re.Match[str]") -> str:
    return "".join([f"‹U+{ord(character):04X}›" for character in match[0]])


def _first_names(match: "re.Match[str]") -> str:
    more = match.end() - match.start() - _MAX_NAMES
    if more <= 0:
        return _names(match)
    names = [f"‹U+{ord(character):04X}›" for character in match[0][:_MAX_NAMES]]
    return f"{''.join(names)}‹{more} more›"


def _escape(match: "re.Match[str]") -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
