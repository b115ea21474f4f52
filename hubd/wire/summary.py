"""An event, a tool call or the data behind a handle, in one line.

A template such as `"{role}: {content}"` is declared once, on the event or the handle type. The
schema carries an event's template under `x-summary`, so that every client shows the same line.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from string import Formatter
from typing import Any, Final

from hubd.wire.text import shorten

# The JSON Schema keyword with the template of an event.
SUMMARY_KEYWORD: Final = "x-summary"
# The JSON Schema keyword of a list, or of an event that is a row: the columns at a terminal, each a
# heading and a template.
COLUMNS_KEYWORD: Final = "x-columns"
# The JSON Schema keyword of a text: the field with the places in it that are marked at a terminal,
# each a first character and the one after the last.
MARKS_KEYWORD: Final = "x-marks"
# The JSON Schema keyword of a list with columns: the text of a last row with sums. The sums are the
# fields of the event with the same names as those of a row.
TOTALS_KEYWORD: Final = "x-totals"
# All of them. JSON Schema does not define them, and some clients warn about each.
KEYWORDS: Final = (SUMMARY_KEYWORD, COLUMNS_KEYWORD, MARKS_KEYWORD, TOTALS_KEYWORD)
# The longest summary, in characters.
SUMMARY_LENGTH: Final = 200
# Fields that hold the text of an event without a template, in order of preference.
TEXT_FIELDS: Final = ("message", "text", "line", "content", "output", "prompt", "summary", "render")
# The fields of a tool call's input that describe the call best, in order of preference.
PRINCIPAL_FIELDS: Final = (
    *("command", "file_path", "notebook_path", "path", "url", "query", "pattern"),
    *("plan", "prompt", "description"),
)


def columns(**templates: str) -> dict[str, Any]:
    """Return the schema of a list whose rows are shown in columns, by their headings.

    Use it as `Field(json_schema_extra=columns(name="{name}", changed="{changed_at}"))`. A time in
    seconds whose name ends with `_at` is shown as `3m ago`.
    """
    return {COLUMNS_KEYWORD: [[heading, text] for heading, text in templates.items()]}


class BadTemplate(Exception):
    """A template does not fit the data."""


def fill(template: str, fields: Mapping[str, Any], length: int = SUMMARY_LENGTH) -> str:
    """Return the template with its fields filled in, on one line.

    Values are written as JSON has them; a missing optional value is empty.

    Raises:
        BadTemplate: A field is missing, or its format does not fit.
    """
    plain = _plain_parts(template)
    if plain is not None and (text := _join(plain, fields)) is not None:
        return shorten(" ".join(text.split()), length)
    values = {name: _wrap(value) for name, value in fields.items()}
    try:
        text = _FORMATTER.vformat(template, (), values)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        raise BadTemplate(f"{type(error).__name__}: {error}") from error
    return shorten(" ".join(text.split()), length)


def event_line(
    event: Mapping[str, Any], template: str | None = None, length: int = SUMMARY_LENGTH
) -> str:
    """Return an event in one line: by its template, else its text, else its type."""
    if template:
        try:
            return fill(template, event, length)
        except BadTemplate:
            pass  # An older server may send an event without a field of the template.
    for name in TEXT_FIELDS:
        text = event.get(name)
        if isinstance(text, str) and text.strip():
            return shorten(" ".join(text[: 4 * length].split()), length)
    return str(event.get("type", ""))


def principal(tool_input: Mapping[str, Any]) -> str | None:
    """Return the field of a tool call's input that describes the call best, if it has one."""
    for name in PRINCIPAL_FIELDS:
        if isinstance(text := tool_input.get(name), str):
            return text
    return None


@lru_cache(maxsize=1024)
def field_names(template: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the fields that a template uses, and those of them with the format of a date."""
    parsed = _FORMATTER.parse(template)
    named = [(re.split(r"[.\[]", name or "")[0], spec or "") for _, name, spec, _ in parsed]
    return (
        frozenset(name for name, _ in named if name),
        frozenset(name for name, spec in named if re.search("%[A-Za-z]", spec)),
    )


@lru_cache(maxsize=1024)
def _plain_parts(template: str) -> tuple[tuple[str, str | None], ...] | None:
    """Return the texts of a template, each with the field after it; None if one has a format."""
    try:
        parts = list(_FORMATTER.parse(template))
    except ValueError:
        return None
    if any(
        spec or conversion or not (name or "x").isidentifier()
        for _, name, spec, conversion in parts
    ):
        return None
    return tuple((text, name) for text, name, _, _ in parts)


def _join(parts: tuple[tuple[str, str | None], ...], fields: Mapping[str, Any]) -> str | None:
    """Return the filled template; None if a field is missing, or is not a text or a number."""
    written = []
    for text, name in parts:
        written.append(text)
        if name is not None:
            value = fields.get(name, _MISSING)
            if type(value) is not str and type(value) is not int:
                return None
            written.append(str(value))
    return "".join(written)


_MISSING: Final = object()


class _Formatter(Formatter):
    """Write values as JSON has them."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion in ("r", "a"):
            return _to_json(value)
        return self.format_field(value, "") if conversion == "s" else value

    def format_field(self, value: Any, format_spec: str) -> Any:
        if value is None:
            return ""
        if isinstance(value, bool | dict | list):
            value = _to_json(value)
        return super().format_field(value, format_spec)


_FORMATTER: Final = _Formatter()


class _Object(dict[str, Any]):
    """A JSON object with its members as attributes: `{server.port}`."""

    def __getattr__(self, name: str) -> Any:
        return _wrap(self[name])


def _wrap(value: Any) -> Any:
    return _Object(value) if isinstance(value, dict) else value


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
