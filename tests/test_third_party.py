"""A plugin of forty lines gets calls, a schema, handles and a table of its own."""

from pathlib import Path
from uuid import uuid4

from tests.notes_plugin import NoteRef, Notes
from tests.support import Daemon, call_events, hub_with


async def test_an_added_note_resolves_to_its_text_without_any_hub_code(tmp_path: Path) -> None:
    notes = Notes()
    async with hub_with(tmp_path, notes):
        added = await notes.add("buy milk")
        note = await notes.note(NoteRef.parse(str(added.ref)))
        assert note.text == "buy milk"


async def test_the_same_plugin_in_a_real_daemon_is_called_described_and_resolved(
    home: Path,
) -> None:
    options = ("--plugin", "tests.notes_plugin:Notes")
    with Daemon(home, *options) as daemon:
        async with daemon.client() as client:
            [added, _] = await client.call("notes.add", {"text": "buy milk: 2 %"})
            handle = added["content"]["ref"]
            [schema, _] = await client.call("notes.schema")
    # The note outlives the daemon.
    with Daemon(home, *options) as daemon:
        async with daemon.client() as client:
            [resolved, _] = await client.call("plexus.resolve_handle", {"handle": handle})
            [note, _] = await client.call("notes.latest")
            gone = str(NoteRef(id=uuid4()))
            failed = await client.call("plexus.resolve_handle", {"handle": gone})
    assert resolved["content"]["data"] == note["content"]
    assert note["content"] == {"type": "note", "ref": handle, "text": "buy milk: 2 %"}
    assert resolved["content"]["summary"] == "buy milk: 2 %"
    assert [item.get("code") for item in failed] == [None, "handle_target_missing", None]
    content = schema["content"]
    assert [method["name"] for method in content["methods"]] == ["add", "latest"]
    assert content["methods"][0]["params"]["properties"]["text"] == {
        "type": "string",
        "description": "What to remember.",
    }
    [described] = content["handles"]
    assert described["description"] == "Points at one note."
    assert described["meta_fields"] == [{"name": "id", "index": 0, "required": True}]


async def test_the_table_of_a_plugin_is_its_own(tmp_path: Path) -> None:
    async with hub_with(tmp_path, Notes()) as hub:
        await call_events(hub, "notes.add", text="x")
        assert hub.database is not None
        row = await hub.database.fetch_one("SELECT count(*) AS n FROM notes_note")
        assert row == {"n": 1}
