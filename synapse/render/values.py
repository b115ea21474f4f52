"""Values as people read them: times, sizes, money, durations, states and short ids.

The name of a field and the type of its value decide, so every plugin gets the same forms:

- an integer named `*_at`, `*_since`, `since` or `timestamp`: a time; also a text with the format
  `date-time`
- an integer named `size` or `*_bytes`: a size; a number named `*_usd`: money
- a number named `*_tokens`: its digits in groups of three
- a number named `*_ms`, `*_secs` or `*_seconds`: a duration
- a text named `status` or `state`: a state with a mark
- a UUID: its short form, also after a name, such as that of an owner; an object with only
  `tree_id` and `node_id`: a position
"""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from hubd.wire.terminal import clean, one_line
from hubd.wire.text import shorten

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema

# The longest text of a cell, in characters; a model may write megabytes.
MAX_CELL = 2000
# The longest text of several lines in a record.
MAX_TEXT = 20_000
# The digits of a short id: the hub finds a random id by its first ones, a node by its last ones.
SHORT_DIGITS = 8

# The units of a relative time, the largest first.
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HEX = frozenset("0123456789abcdefABCDEF")
# A name and a UUID, such as those of an owner.
_OWNER = re.compile(r"([\w.-]{1,100}:)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")

# The mark, the style and the words of each group of states.
_STATES = (
    ("●", "green", "active online open running started streaming"),
    ("?", "yellow", "approval asking awaiting_approval awaiting_permission pending"),
    ("✓", "green", "allowed approved complete completed done finished healthy ok passed ready"),
    ("✓", "green", "resolved succeeded success"),
    ("✗", "red", "broken crashed denied error expired failed lost refused unhealthy"),
    ("◌", "cyan", "idle paused queued scheduled waiting"),
    ("○", "dim", "archived cancelled canceled interrupted purged stopped timed_out withdrawn"),
)
# Shorter words for some states.
_STATE_WORDS = {"awaiting_permission": "approval", "awaiting_approval": "approval"}


class Cell(NamedTuple):
    """A value in one line: its text, its style, and how a table treats it."""

    text: str
    style: str = ""
    # Whether the text is aligned to the right, as numbers are.
    is_number: bool = False
    # Whether the text makes sense only as a whole.
    is_whole: bool = False
    # The places of the text that are marked: first character, and the one after the last.
    marks: tuple[tuple[int, int], ...] = ()


class Values:
    """The forms of the values of one method."""

    def __init__(
        self,
        returns: JsonSchema | None = None,
        *,
        exact_times: bool = False,
        is_exact: bool = False,
    ) -> None:
        # Whether times are dates instead of `3m ago`.
        self._exact_times = exact_times
        # Whether all values are as the hub sends them.
        self._is_exact = is_exact
        # The fields that the schema declares as times.
        self._times = _date_times(returns or {})

    def cell(self, name: str, value: Any) -> Cell:
        """Return a value in one line."""
        name = name.rpartition(".")[2]
        if self._is_exact or value is None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return Cell(flat(value_text(value)), is_number=number, is_whole=number)
        if isinstance(value, bool):
            return Cell("yes" if value else "no", is_whole=True)
        if (moment := self._moment(name, value)) is not None:
            text = exact_time(moment) if self._exact_times else relative(time.time() - moment)
            return Cell(text, is_whole=True)
        if isinstance(value, int | float):
            return Cell(_number_text(name, value), is_number=True, is_whole=True)
        if isinstance(value, str) and name in ("status", "state"):
            return state_cell(value)
        if (short := short_uuid(value)) is not None:
            return Cell(short, "cyan", is_whole=True)
        if (place := position_text(value)) is not None:
            return Cell(place, "cyan", is_whole=True)
        if isinstance(value, str) and (match := _OWNER.fullmatch(value)) is not None:
            return Cell(f"{match[1]}{short_uuid(match[2])}…")
        return Cell(flat(value_text(value)))

    def cells(self, name: str, values: list[Any]) -> list[Cell]:
        """Return the values of a column; short ids have as many digits as tell them apart."""
        cells = [self.cell(name, value) for value in values]
        ids = {value for value in values if short_uuid(value) is not None}
        digits = SHORT_DIGITS
        while ids and not self._is_exact and digits < 32:
            if len({short_uuid(value, digits) for value in ids}) == len(ids):
                break
            digits += 1
        if digits == SHORT_DIGITS:
            return cells
        longer = [short_uuid(value, digits) for value in values]
        return [
            cell if text is None else cell._replace(text=text)
            for cell, text in zip(cells, longer, strict=True)
        ]

    def full(self, name: str, value: Any) -> Cell:
        """Return a value for a record: with the date of a time, the whole id, all lines."""
        if isinstance(value, str) and not self._is_exact and "\n" in value.strip():
            text = value.strip("\n")
            more = len(text) - MAX_TEXT
            rest = f"… +{more:,} characters" if more > 0 else ""
            return Cell(clean(text[:MAX_TEXT]).replace("\t", "    ") + rest)
        cell = self.cell(name, value)
        if isinstance(value, str) and (short_uuid(value) or _OWNER.fullmatch(value)):
            return cell._replace(text=value)
        moment = None if self._is_exact else self._moment(name.rpartition(".")[2], value)
        if moment is not None and not self._exact_times:
            return cell._replace(text=f"{_date(moment)} ({cell.text})")
        return cell

    def _moment(self, name: str, value: Any) -> float | None:
        """Return the time of a value in seconds; None if it is not a time."""
        if isinstance(value, int) and not isinstance(value, bool):
            is_time = name.endswith(("_at", "_since")) or name in ("timestamp", "since")
            is_time = is_time or name in self._times
            # Years that the system's calendar has.
            return value if is_time and 0 <= value < 2**37 else None
        if isinstance(value, str) and name in self._times:
            from datetime import datetime

            try:
                return datetime.fromisoformat(value).timestamp()
            except (ValueError, OverflowError, OSError):
                return None
        return None


def value_text(value: Any) -> str:
    """Return a value as text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(entry, str | int | float) for entry in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)


def flat(text: str) -> str:
    """Return the start of a text on one line, without control characters."""
    return one_line(shorten(text, MAX_CELL)).replace("\t", " ")


def heading(name: str) -> str:
    """Return the name of a field in words, without its unit: `cost_usd` is `cost`."""
    for suffix in ("_at", "_usd", "_bytes", "_ms", "_secs", "_seconds"):
        if name.endswith(suffix) and len(name) > len(suffix):
            name = name.removesuffix(suffix)
            break
    return flat(name.replace("_", " "))


def is_id(name: str) -> bool:
    """Return whether a field is an id by its name."""
    return name == "id" or name.endswith(("_id", "_hash", "_node"))


def state_cell(state: str) -> Cell:
    """Return a state with its mark; an unknown state has none."""
    word = state.lower().replace("-", "_").replace(" ", "_")
    for mark, style, words in _STATES:
        if word in words.split():
            text = flat(_STATE_WORDS.get(word, state.replace("_", " ")))
            return Cell(f"{mark} {text}", style, is_whole=True)
    return Cell(flat(state))


def short_uuid(value: Any, length: int = SHORT_DIGITS) -> str | None:
    """Return the short form of a UUID that the hub accepts; None for other values.

    An id of version 7 begins with its time, so its end tells it apart.

    Args:
        value: Any value.
        length: The number of digits.
    """
    if not isinstance(value, str) or len(value) != 36 or value.count("-") != 4:
        return None
    digits = value.replace("-", "")
    if len(digits) != 32 or not _HEX.issuperset(digits):
        return None
    return digits[-length:] if digits[12] == "7" else digits[:length]


def position_text(value: Any) -> str | None:
    """Return a position in a tree in words; None for other values."""
    if not isinstance(value, dict) or value.keys() != {"tree_id", "node_id"}:
        return None
    node, tree = (value[name] for name in ("node_id", "tree_id"))
    if not isinstance(node, str) or not isinstance(tree, str):
        return None
    return f"{short_uuid(node) or flat(node)} in tree {short_uuid(tree) or flat(tree)}"


def relative(seconds: float) -> str:
    """Return the time since a moment, such as `3m ago`; for one in the future, `in 3m`."""
    size = abs(seconds)
    for length, unit in _UNITS:
        if size >= length:
            text = f"{int(size // length)}{unit}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "now"


def exact_time(moment: float) -> str:
    """Return a time with its date and seconds, in the zone of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def _date(moment: float) -> str:
    """Return the day and the minute of a time; the year only if it is another one."""
    local = time.localtime(moment)
    year = "" if local.tm_year == time.localtime().tm_year else f" {local.tm_year}"
    return f"{local.tm_mday} {_MONTHS[local.tm_mon - 1]}{year} {time.strftime('%H:%M', local)}"


def _number_text(name: str, value: float) -> str:
    if name.endswith("_usd"):
        return money(value)
    if isinstance(value, int) and (name == "size" or name.endswith("_bytes")):
        return size_text(value)
    if name.endswith("_ms"):
        return duration(value / 1000)
    if name.endswith(("_secs", "_seconds")):
        return duration(value)
    if name.endswith("_tokens"):
        return f"{value:,}"
    return str(value)


def money(amount: float) -> str:
    """Return dollars; cents of a cent only for amounts below one cent."""
    digits = 2 if abs(amount) >= 0.01 or amount == 0 else 4
    return f"{'-' if amount < 0 else ''}${abs(amount):,.{digits}f}"


def size_text(size: int) -> str:
    """Return a number of bytes with its unit."""
    amount, power = float(size), 0
    while abs(amount) >= 1024 and power < len(_SIZES) - 1:
        amount, power = amount / 1024, power + 1
    return f"{size} B" if power == 0 else f"{amount:.1f} {_SIZES[power]}"


def duration(seconds: float) -> str:
    """Return a duration: `240 ms`, `8.4 s`, `3m 20s`, `2h 5m` or `1d 3h`."""
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if abs(seconds) < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = int(seconds)
    for (length, unit), (below, below_unit) in pairwise(_UNITS):
        if abs(whole) >= length:
            rest = whole % length // below
            return (
                f"{whole // length}{unit} {rest}{below_unit}"
                if rest
                else f"{whole // length}{unit}"
            )
    return f"{whole} s"


def _date_times(returns: JsonSchema) -> frozenset[str]:
    """Return the names of the fields with the format `date-time`."""
    names = set()
    for schema in (returns, *returns.get("$defs", {}).values()):
        properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
        for name, field in properties.items():
            kinds = [field, *field.get("anyOf", ())] if isinstance(field, dict) else []
            if any(isinstance(kind, dict) and kind.get("format") == "date-time" for kind in kinds):
                names.add(name)
    return frozenset(names)
