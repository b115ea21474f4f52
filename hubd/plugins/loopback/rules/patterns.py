"""The pattern of a rule: `GLOB` for the principal field of a tool, or `field=GLOB` for any field.

The principal field is the command of Bash, the path of file tools, and the URL of WebFetch. The
field `input` is the whole input as JSON with sorted keys. `field=TEXT` without wildcards is exactly
this text. A field with the name `command` is read as a shell command in every tool.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from hubd.plugins.loopback.rules import globs, words
from hubd.plugins.loopback.rules.rule import MAX_PATTERN
from hubd.plugins.loopback.rules.words import InvalidPatternError
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.lazy_pattern import lazy_pattern

Kind = Literal["command", "path", "url"]

PATH_FIELDS: Final = ("file_path", "notebook_path", "path")
_FILE_TOOLS: Final = ("Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "NotebookRead")
# The tools with a principal field, and its kind.
KINDS: Final[Mapping[str, Kind]] = {
    "Bash": "command",
    "WebFetch": "url",
    **dict.fromkeys(_FILE_TOOLS, "path"),
}
PRINCIPAL_FIELDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "command": ("command",),
    "path": PATH_FIELDS,
    "url": ("url",),
}
_OTHER_FIELDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "command": ("description", "timeout", "run_in_background", "dangerouslyDisableSandbox"),
    "path": (
        *("content", "old_string", "new_string", "replace_all", "edits", "offset", "limit"),
        *("pages", "new_source", "cell_id", "cell_type", "edit_mode"),
    ),
    "url": ("prompt",),
}
WHOLE_INPUT: Final = "input"
_FIELD: Final = lazy_pattern(r"([a-z][A-Za-z0-9_]*)=")
_TOOL: Final = lazy_pattern(r"[A-Za-z0-9_.:*?\[\]!-]+")


@dataclass(frozen=True)
class Pattern:
    """A pattern that was read."""

    # None for the principal field.
    field: str | None
    glob: str


@lru_cache(maxsize=4096)
def read(text: str) -> Pattern:
    """Return the field and the glob of a pattern."""
    match = _FIELD.match(text)
    return Pattern(match[1], text[match.end() :]) if match else Pattern(None, text)


def kind_of(tool: str) -> Kind | None:
    """Return the kind of a tool's principal field; None if it has none."""
    return KINDS.get(tool)


def compared_as(pattern: Pattern, kind: Kind | None) -> Kind | None:
    """Return how a pattern is compared with a tool's principal field; None for another field."""
    if kind is None:
        return "command" if pattern.field == "command" else None
    return kind if pattern.field is None or pattern.field in PRINCIPAL_FIELDS[kind] else None


def exact_text(pattern: Pattern) -> str | None:
    """Return the only value that `field=TEXT` matches; None for a glob."""
    return globs.literal(pattern.glob) if pattern.field is not None else None


def canonical(value: Any) -> str:
    """Return a value of an input as text: a text itself, else its JSON with sorted keys."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def check(effect: str, tool: str, text: str | None) -> None:
    """Check a rule's tool and pattern.

    Raises:
        InvalidPatternError: The rule could never match, or would match other calls than it seems.
    """
    if not _TOOL.fullmatch(tool):
        raise InvalidPatternError(f"'{tool[:200]}' is not the name of a tool or a glob")
    if text is None:
        return
    if not text.strip():
        raise InvalidPatternError("the pattern is empty; leave it out to match every call")
    if len(text) > MAX_PATTERN:
        raise InvalidPatternError(f"the pattern has more than {MAX_PATTERN:,} characters")
    pattern = read(text)
    if not pattern.glob:
        raise InvalidPatternError(f"there is no glob after `{pattern.field}=`")
    if globs.literal(tool) is None:
        return
    kind = kind_of(tool)
    if kind is None and pattern.field is None:
        raise InvalidPatternError(
            f"{tool} has no principal field; write field=GLOB, such as `query=*`"
        )
    compared = compared_as(pattern, kind)
    if compared == "command" and exact_text(pattern) is None:
        _check_command(pattern.glob)
    elif compared is None and kind is not None and pattern.field != WHOLE_INPUT:
        _check_other_field(effect, tool, kind, pattern, text)


def _check_other_field(effect: str, tool: str, kind: Kind, pattern: Pattern, text: str) -> None:
    principal = PRINCIPAL_FIELDS[kind][0]
    if pattern.field not in _OTHER_FIELDS[kind]:
        raise InvalidPatternError(
            f"{tool} has no field '{pattern.field}'; if '{pattern.field}=' is part of the value, "
            f"write `{principal}={text[:100]}`"
        )
    if effect == "allow":
        raise InvalidPatternError(
            f"an allow rule for {tool} must be about its {principal}, "
            f"because the agent may write anything into '{pattern.field}'"
        )


def _check_command(glob: str) -> None:
    if glob.endswith(":*"):
        raise InvalidPatternError(
            f"`:*` has no special meaning; write `{glob.removesuffix(':*')} *`"
        )
    try:
        words.parse(glob)
    except InvalidPatternError as error:
        raise InvalidPatternError(
            f"{error}; for exactly one text, write `command=TEXT` without wildcards"
        ) from None
