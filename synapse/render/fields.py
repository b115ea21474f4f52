"""Pick the fields of `--fields` from events, or from the rows of an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synapse.errors import CommandError, UsageError, suggestion
from synapse.params.schemas import Schemas

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema

# The most rows that wait until every field has appeared.
MAX_WAITING = 1000


class Fields:
    """The fields of `--fields`.

    The method's schema decides whether a field exists. If the schema allows any fields, the events
    decide: rows wait until every field has appeared in one of them.
    """

    def __init__(self, names: list[str], returns: JsonSchema) -> None:
        """Check the names.

        Raises:
            UsageError: The method's events have no such field.
        """
        self._names = names
        schema = _Returns(returns)
        for name in names:
            if not schema.has(name):
                raise UsageError(
                    f"unknown field '{name}' in --fields",
                    hint=suggestion(name, schema.names_beside(name)),
                )
        # Whether the fields are those of the rows in an event.
        self._of_rows = any(not schema.has_in_event(name) for name in names)
        self._unseen = {name for name in names if not schema.declares(name)}
        self._keys: dict[str, None] = {}
        self._waiting: list[dict[str, Any]] = []

    def pick(self, content: Any) -> list[dict[str, Any]]:
        """Take one event and return the rows that can be shown now."""
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
            CommandError: No event has one of the fields.
        """
        if self._unseen and self._keys:
            name = min(self._unseen, key=self._names.index)
            hint = suggestion(name, list(self._keys))
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

    def __init__(self, returns: JsonSchema) -> None:
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
        """Return whether an event or a row may have a field."""
        return self._leads([*self._events, *self._rows], name.split("."))

    def has_in_event(self, name: str) -> bool:
        """Return whether the event itself may have a field."""
        return self._leads(self._events, name.split("."))

    def declares(self, name: str) -> bool:
        """Return whether the schema names a field."""
        return self._leads([*self._events, *self._rows], name.split("."), is_open=False)

    def names_beside(self, name: str) -> list[str]:
        """Return the fields that the schema names beside a field."""
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
        """Return whether a dotted name exists; `is_open` counts where any name is allowed."""
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


def declared(names: tuple[str, ...], returns: JsonSchema) -> list[str]:
    """Return the names that a method's schema declares as fields."""
    schema = _Returns(returns)
    return [name for name in names if schema.declares(name)]


def is_rows(value: Any) -> bool:
    """Return whether a value is a list of objects, such as a page of a table."""
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _names_beside(content: Any, name: str) -> list[str]:
    """Return the fields of the object that a dotted name would be in."""
    *above, _ = name.split(".")
    while True:
        place, is_there = _value(content, ".".join(above)) if above else (content, True)
        if is_there and isinstance(place, dict):
            return [".".join((*above, key)) for key in place]
        if not above:
            return []
        above.pop()


def _value(content: Any, name: str) -> tuple[Any, bool]:
    """Return the value at a dotted name, and whether it exists."""
    for part in name.split("."):
        if isinstance(content, list) and part.isdecimal() and int(part) < len(content):
            content = content[int(part)]
        elif isinstance(content, dict) and part in content:
            content = content[part]
        else:
            return None, False
    return content, True
