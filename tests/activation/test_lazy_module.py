"""Modules that are imported when they are used first."""

import subprocess
import sys
from pathlib import Path

import pytest

from hubd.activation.lazy_module import lazy_module
from tests import schema_file

# Loads the built-in plugins as a daemon does, and prints their events that were imported.
LOAD = f"""
import sys
from pathlib import Path
from hubd.activation.schema_cache import SCHEMA_CACHE
SCHEMA_CACHE.open(Path({str(schema_file.FILE)!r}))
from hubd.plexus.discovery import BUILT_IN, Source
plugins = [Source(target, "built in").load() for target in BUILT_IN]
imported = ["hubd.plugins.bash.events", "hubd.plugins.claudecode.chat_events"]
print([name for name in imported if name in sys.modules])
assert [entry.events for plugin in plugins for entry in plugin.methods.values()]
print([name for name in imported if name in sys.modules])
"""


def test_the_first_access_imports_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numbers_for_test.py").write_text("ONE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    numbers = lazy_module("numbers_for_test")
    assert "numbers_for_test" not in sys.modules
    assert numbers.ONE == 1
    assert "numbers_for_test" in sys.modules
    with pytest.raises(AttributeError, match=r"numbers_for_test.*TWO"):
        _ = numbers.TWO


def test_a_missing_module_is_reported_at_the_first_access() -> None:
    missing = lazy_module("no_such_module_for_test")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_for_test"):
        _ = missing.ONE


def test_a_start_with_cached_schemas_imports_no_events_of_plugins() -> None:
    schema_file.build()
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, check=True, cwd="/"
    )
    before, after = done.stdout.splitlines()
    assert before == "[]"
    assert after == "['hubd.plugins.bash.events', 'hubd.plugins.claudecode.chat_events']"
