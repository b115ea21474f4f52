"""Read the times of a search: Unix seconds, ISO dates and times, and ages. No I/O."""

import time
from datetime import datetime, timedelta
from typing import Final

from hubd.errors import InvalidParams
from hubd.wire.lazy_pattern import lazy_pattern

_AGE: Final = lazy_pattern(r"(\d{1,9})\s*([smhdw])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SECONDS: Final = lazy_pattern(r"-?\d{1,15}")
_DATE: Final = lazy_pattern(r"\d{4}-\d{2}-\d{2}|\d{8}")


def first_second(written: str | int | None, name: str) -> int | None:
    """Return a time as Unix seconds. A date is its first second, in the hub's time zone.

    Raises:
        InvalidParams: The text is not a time; names the parameter.
    """
    if written is None or isinstance(written, int):
        return written
    text = written.strip()
    if _SECONDS.fullmatch(text) and not _DATE.fullmatch(text):
        return int(text)
    if age := _AGE.fullmatch(text):
        return int(time.time()) - int(age[1]) * _UNITS[age[2]]
    return int(_moment(text, name).timestamp())


def last_second(written: str | int | None, name: str) -> int | None:
    """Return a time as `first_second` does, but a date as its last second."""
    if isinstance(written, str) and _DATE.fullmatch(written.strip()):
        return int((_moment(written.strip(), name) + timedelta(days=1)).timestamp()) - 1
    return first_second(written, name)


def _moment(text: str, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        moment.timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidParams(
            f"{name} '{text}' is not a time",
            suggestion="Use Unix seconds, a date such as 2026-01-31, or an age such as 2d",
        ) from None
    return moment
