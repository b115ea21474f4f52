"""The list of plugins that the hub loads."""

from pathlib import Path

import pytest

from hubd.plexus.discovery import sources

ENTRY_POINTS = "[hubd.plugins]\ntodo = todo.plugin:Todo\nother = other.plugin:Other\n"


def test_an_installed_plugin_that_is_also_named_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "todo-1.0.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: todo\nVersion: 1.0.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    listed = [source for source in sources(("todo.plugin:Todo",)) if source.found_in != "built in"]
    assert [(source.target, source.found_in) for source in listed] == [
        ("other.plugin:Other", "entry point other"),
        ("todo.plugin:Todo", "--plugin"),
    ]
