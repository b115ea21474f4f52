"""An event in one line: by its template in the schema, else by its text or its fields."""

import pytest
from pydantic import TypeAdapter

from hubd.activation import Event
from synapse.render.lines import MAX_LINE, EventLines


class Finished(Event, summary="{tool_name}: {status}"):
    tool_name: str
    status: str


class Noted(Event):
    text: str
    count: int


class Counted(Event):
    count: int
    tree_id: str
    place: dict[str, str]


class Placed(Event):
    node_id: str
    place: dict[str, str]


LINES = EventLines(TypeAdapter(Finished | Noted | Counted | Placed).json_schema())


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "finished", "tool_name": "Bash", "status": "denied"}, "Bash: denied"),
        ({"type": "finished", "tool_name": "a\nb\x1b[31m", "status": ""}, "a b:"),
        # An older hub may leave out a field of the template.
        ({"type": "finished", "tool_name": "Bash"}, "finished"),
        ({"type": "noted", "text": "milk", "count": 2}, "noted milk"),
        ({"type": "counted", "count": 2, "tree_id": "t", "place": {}}, "counted count=2"),
        ({"type": "placed", "node_id": "n", "place": {}}, ""),
        ({"type": "unknown", "size": 3}, "unknown size=3"),
    ],
)
def test_an_event_has_one_line(event: dict[str, object], line: str) -> None:
    assert LINES.line(event) == line


def test_a_long_line_is_cut() -> None:
    line = LINES.line({"type": "finished", "tool_name": "x" * 1000, "status": ""})
    assert (len(line), line[-1]) == (MAX_LINE, "…")
    assert len(LINES.line({"type": "counted", "name": "x" * 1000})) <= MAX_LINE + len("counted ")
