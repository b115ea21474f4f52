"""Modules that are imported when they are used first."""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hubd
from hubd.activation.lazy_module import LazyModule
from tests import schema_file

# Loads the built-in plugins as a daemon does, and prints the modules of `names` that were imported.
LOAD = f"""
import sys
from pathlib import Path
from hubd.activation.schema_cache import SCHEMA_CACHE
SCHEMA_CACHE.open(Path({str(schema_file.FILE)!r}))
from hubd.plexus.discovery import BUILT_IN, Source
plugins = [Source(target, "built in").load() for target in BUILT_IN]
names = ("bash.events", "claudecode.chat_events", "claudecode.queue")
print([name for name in names if f"hubd.plugins.{{name}}" in sys.modules])
assert [entry.events for plugin in plugins for entry in plugin.methods.values()]
print([name for name in names if f"hubd.plugins.{{name}}" in sys.modules])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a package with the lazy modules `numbers` and `missing`."""
    name = "package_for_test"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(
        "from hubd.activation.lazy_module import lazy_modules\n"
        'lazy_modules(__name__, "numbers", "missing")\n'
    )
    (tmp_path / name / "numbers.py").write_text("ONE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[module]


def test_the_first_access_imports_the_module(package: str) -> None:
    numbers = importlib.import_module(package).numbers
    assert f"{package}.numbers" not in sys.modules
    assert numbers.ONE == 1
    assert f"{package}.numbers" in sys.modules
    with pytest.raises(AttributeError, match=r"package_for_test.numbers.*TWO"):
        _ = numbers.TWO


def test_a_missing_module_is_reported_at_the_first_access(package: str) -> None:
    missing = importlib.import_module(package).missing
    with pytest.raises(ModuleNotFoundError, match=r"package_for_test.missing"):
        _ = missing.ONE


def test_a_start_with_cached_schemas_imports_neither_events_nor_chats() -> None:
    schema_file.build()
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, check=True, cwd="/"
    )
    before, after = done.stdout.splitlines()
    assert before == "[]"
    assert after == "['bash.events', 'claudecode.chat_events']"


def test_every_module_that_a_package_defers_exists() -> None:
    packages = [each.name for each in pkgutil.walk_packages(hubd.__path__, "hubd.") if each.ispkg]
    names = [
        module.__name__
        for package in packages
        for module in vars(importlib.import_module(package)).values()
        if isinstance(module, LazyModule)
    ]
    assert [name for name in names if importlib.util.find_spec(name) is None] == []
