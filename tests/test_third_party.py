"""The plugin of the guide: its calls, its schema, its handles, its table and its types."""

import re
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import indent
from typing import Any
from uuid import uuid4

import pytest

from hubd.activation import Activation, Event, method
from hubd.testing import hub
from tests.sample_plugins.notes import NoteRef, Notes
from tests.support import Daemon

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "plugins.md").read_text()
PLUGIN, TEST, _INTERACTIVE, GROUP, _MANY, PROCESS, _SEARCH = re.findall(
    r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL
)


class Line(Event):
    text: str


def test_the_guide_shows_the_plugin_that_is_tested_here() -> None:
    assert (ROOT / "tests" / "sample_plugins" / "notes.py").read_text() == PLUGIN


async def test_the_test_of_the_guide_passes_and_has_at_most_ten_lines() -> None:
    assert len(TEST.strip().splitlines()) <= 10
    code: dict[str, Any] = {}
    exec(TEST.replace("from notes_plugin", "from tests.sample_plugins.notes"), code)
    await code["test_an_added_note_is_listed_and_resolved"]()


async def test_the_parameter_group_of_the_guide_works() -> None:
    code: dict[str, Any] = {"__name__": __name__}
    exec(GROUP, code)
    async with hub(code["Streams"]()) as h:
        event = await h.call_one("streams.first", session="work")
        assert event["text"] == "work: None"


async def test_the_program_of_the_guide_runs(tmp_path: Path) -> None:
    body = PROCESS.replace('["git", "log"]', '["echo", "hello"]')
    source = f"async def log(self, path: str) -> AsyncIterator[Line]:\n{indent(body, '    ')}"
    code: dict[str, Any] = {"AsyncIterator": AsyncIterator, "Line": Line}
    exec(source, code)
    code["log"].__doc__ = "Print lines."
    members = {"__doc__": "Runs a program.", "log": method(code["log"])}
    runner: Any = type("Runner", (Activation,), members, namespace="runner", version="1.0.0")
    async with hub(runner()) as h:
        event = await h.call_one("runner.log", path=str(tmp_path))
        assert event["text"] == "hello"


async def test_a_method_can_be_called_without_the_protocol() -> None:
    notes = Notes()
    async with hub(notes):
        added = await notes.add("milk")
        assert (await notes.note(NoteRef.parse(str(added.ref)))).text == "milk"


async def test_a_real_daemon_calls_describes_and_resolves_the_plugin(home: Path) -> None:
    options = ("--plugin", "tests.sample_plugins.notes:Notes")
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
            missing = str(NoteRef(id=uuid4()))
            failed = await client.call("plexus.resolve_handle", {"handle": missing})
    assert resolved["content"]["data"] == note["content"]
    assert note["content"] == {"type": "note", "ref": handle, "text": "buy milk: 2 %"}
    assert resolved["content"]["summary"] == "buy milk: 2 %"
    assert [item.get("code") for item in failed] == [None, "handle_target_missing", None]
    content = schema["content"]
    assert [method["name"] for method in content["methods"]] == ["add", "latest"]
    assert content["methods"][0]["params"]["properties"]["text"] == {
        "type": "string",
        "description": "The note's text.",
    }
    assert content["methods"][1]["returns"]["x-summary"] == "{text}"
    [described] = content["handles"]
    assert described["description"] == "A note."
    assert described["meta_fields"] == [{"name": "id", "index": 0, "required": True}]


async def test_a_plugin_has_a_table_of_its_own() -> None:
    async with hub(Notes()) as h:
        await h.call_one("notes.add", text="x")
        assert await h.database.fetch_one("SELECT count(*) AS n FROM notes_note") == {"n": 1}


@pytest.mark.soak
def test_the_plugin_is_strictly_typed_against_an_installed_wheel(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    python = str(venv / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    _run(*pip, "--python", python, "install", "--no-deps", str(ROOT))
    # The dependencies come from this environment; its link to the sources does not work there.
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    for name, code in (("notes_plugin", PLUGIN), ("test_notes", TEST), ("group", GROUP)):
        (tmp_path / f"{name}.py").write_text(code)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    names = ("notes_plugin.py", "test_notes.py", "group.py")
    checked = _run(*mypy, "--verbose", *names, cwd=tmp_path)
    assert "Success: no issues found in 3 source files" in checked
    assert f"{packages}/hubd/activation/__init__.py" in checked
    # The wheel has all files of the page.
    files = [
        {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
        for root in (ROOT / "hubd/page/static", packages / "hubd/page/static")
    ]
    assert files[0] == files[1] != set()


def _run(*command: str, cwd: Path | None = None) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    return output
