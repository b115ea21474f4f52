"""Events in one line: by the template in the schema, else by their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubd.wire.summary import SUMMARY_KEYWORD, event_line
from hubd.wire.terminal import clean
from hubd.wire.text import shorten
from synapse.params.schemas import Schemas, is_reference

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema

# The length of a line, in characters.
MAX_LINE = 200


class EventLines:
    """The one-line texts of a method's events."""

    def __init__(self, returns: JsonSchema) -> None:
        self._schemas = Schemas(returns)
        # The schemas of the events by their types, those inside other events included.
        self._events: dict[str, JsonSchema] = {}
        for schema in (returns, *returns.get("$defs", {}).values()):
            kind = schema.get("properties", {}).get("type", {}).get("const")
            if kind is not None:
                self._events[str(kind)] = schema

    def summary(self, event: dict[str, Any]) -> str:
        """Return the line by the event's template; empty if it has none."""
        template = self._events.get(str(event.get("type")), {}).get(SUMMARY_KEYWORD)
        return clean(event_line(event, template, MAX_LINE)) if template else ""

    def line(self, event: dict[str, Any]) -> str:
        """Return the line of an event; empty for an event that has only ids and places."""
        if line := self.summary(event):
            return line
        kind = str(event.get("type", ""))
        line = event_line(event, None, MAX_LINE)
        if line != kind:
            return clean(f"{kind} {line}" if kind else line)
        fields = {name: value for name, value in event.items() if self._is_told(kind, name, value)}
        return clean(f"{kind} {fields_line(fields)}") if fields else ""

    def _is_told(self, kind: str, name: str, value: Any) -> bool:
        """Return whether a field is a plain value, and not an id, a handle or a place."""
        if name in ("type", "handle") or value is None or isinstance(value, dict | list):
            return False
        field = self._events.get(kind, {}).get("properties", {}).get(name, {})
        is_id = name == "id" or name.endswith("_id")
        return not is_id and not any(map(is_reference, self._schemas.variants(field)))


def fields_line(event: Any) -> str:
    """Return the fields of an event on one line."""
    from synapse.render.values import value_text

    if not isinstance(event, dict):
        return clean(str(event))
    fields = (
        f"{name}={value_text(value)}"
        for name, value in event.items()
        if name != "type" and value is not None
    )
    return shorten(clean(" ".join(fields)).replace("\n", "↵"), MAX_LINE)
