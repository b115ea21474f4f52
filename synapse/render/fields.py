"""`--fields`: picks fields of events, or of the rows that an event holds."""

from __future__ import annotations

from typing import Any

from synapse.errors import CommandError, UsageError, did_you_mean
from synapse.schemas import Schemas

# Rows that wait until every field was seen once; more than this are shown without it.
MAX_WAITING = 1000


class Fields:
    """The fields that the user asked for.

    The method's schema decides whether a field exists. Where the schema leaves the fields open,
    the events decide: rows wait until every field was seen in one of them.
    """

    def __init__(self, names: list[str], returns: dict[str, Any]) -> None:
        """Check the names.

        Raises:
            UsageError: The method returns no such field.
        """
        self._names = names
        schema = _Returns(returns)
        for name in names:
            if not schema.has(name):
                raise UsageError(
                    f"unknown field '{name}' in --fields",
                    hint=did_you_mean(name, schema.names_beside(name)),
                )
        # Whether the rows of an event are meant, and not the event.
        self._of_rows = any(not schema.has_in_event(name) for name in names)
        self._unseen = {name for name in names if not schema.declares(name)}
        self._keys: dict[str, None] = {}
        self._waiting: list[dict[str, Any]] = []

    def pick(self, content: Any) -> list[dict[str, Any]]:
        """Take one event; return the rows that can be shown now."""
        for row in self._rows(content):
            picked = {}
            for name in self._names:
                picked[name], is_there = _value(row, name)
                if not is_there and row is not content:
                    picked[name], is_there = _value(content, name)
                if is_there:
                    self._unseen.discard(name)
            for name in self._unseen:
                self._keys |= dict.fromkeys(_names_beside(row, name))
            self._waiting.append(picked)
        return [] if self._unseen and len(self._waiting) <= MAX_WAITING else self.flush()

    def flush(self) -> list[dict[str, Any]]:
        """Return the rows that wait."""
        rows, self._waiting = self._waiting, []
        return rows

    def finish(self) -> list[dict[str, Any]]:
        """Return the last rows.

        Raises:
            CommandError: A field was in none of the events.
        """
        if self._unseen and self._keys:
            name = min(self._unseen, key=self._names.index)
            hint = did_you_mean(name, list(self._keys))
            raise CommandError(f"unknown field '{name}' in --fields", hint=hint, status=2)
        return self.flush()

    def _rows(self, content: Any) -> list[Any]:
        if not isinstance(content, dict):
            return [content]
        heads = {name.partition(".")[0] for name in self._names}
        absent = heads - content.keys()
        if not absent:
            return [content]
        lists: list[list[Any]] = [value for value in content.values() if is_rows(value)]
        for rows in lists:
            if any(absent & row.keys() for row in rows):
                return rows
        return [] if self._of_rows and lists and not any(lists) else [content]


class _Returns:
    """The schema of a method's events."""

    def __init__(self, returns: dict[str, Any]) -> None:
        self._schemas = Schemas(returns)
        self._events = self._schemas.variants(returns)
        self._rows = [
            row
            for event in self._events
            for field in event.get("properties", {}).values()
            for kind in self._schemas.variants(field)
            if kind.get("type") == "array" and isinstance(kind.get("items"), dict)
            for row in self._schemas.variants(kind["items"])
            if row.get("type") == "object"
        ]

    def has(self, name: str) -> bool:
        """Whether an event or a row may have this field."""
        return self._leads([*self._events, *self._rows], name.split("."))

    def has_in_event(self, name: str) -> bool:
        """Whether the event itself may have this field."""
        return self._leads(self._events, name.split("."))

    def declares(self, name: str) -> bool:
        """Whether the schema names the field."""
        return self._leads([*self._events, *self._rows], name.split("."), is_open=False)

    def names_beside(self, name: str) -> list[str]:
        """Return the fields that the schema names where this one was looked for."""
        *above, _ = name.split(".")
        places = [*self._events, *self._rows]
        for number, part in enumerate(above):
            fields = [place.get("properties", {}).get(part) for place in places]
            below = [kind for field in fields if field for kind in self._schemas.variants(field)]
            if not below:
                above = above[:number]
                break
            places = below
        names = dict.fromkeys(name for place in places for name in place.get("properties", {}))
        return [".".join((*above, name)) for name in names]

    def _leads(self, places: list[Any], parts: list[str], *, is_open: bool = True) -> bool:
        """Whether a dotted name leads somewhere; `is_open` is the answer where any name may be."""
        if not parts:
            return True
        head, *rest = parts
        for place in places:
            properties: dict[str, Any] = place.get("properties", {})
            below: Any = None
            if place.get("type") == "array":
                below = place.get("items", {}) if head.isdecimal() else None
            elif head in properties:
                below = properties[head]
            elif place.get("type") in (None, "object"):
                more = place.get("additionalProperties", not properties)
                if more and is_open:
                    return True
            if isinstance(below, dict) and self._leads(
                self._schemas.variants(below), rest, is_open=is_open
            ):
                return True
        return False


def declared(names: tuple[str, ...], returns: dict[str, Any]) -> list[str]:
    """Return those of the names that a method's schema declares as fields."""
    schema = _Returns(returns)
    return [name for name in names if schema.declares(name)]


def is_rows(value: Any) -> bool:
    """Whether a value is a list of objects, as a page of a table is."""
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _names_beside(content: Any, name: str) -> list[str]:
    """Return the fields that are there where a dotted name was looked for."""
    *above, _ = name.split(".")
    while True:
        place, is_there = _value(content, ".".join(above)) if above else (content, True)
        if is_there and isinstance(place, dict):
            return [".".join((*above, key)) for key in place]
        if not above:
            return []
        above.pop()


def _value(content: Any, name: str) -> tuple[Any, bool]:
    """Return the value at a dotted name, and whether there is one."""
    for part in name.split("."):
        if isinstance(content, list) and part.isdecimal() and int(part) < len(content):
            content = content[int(part)]
        elif isinstance(content, dict) and part in content:
            content = content[part]
        else:
            return None, False
    return content, True
