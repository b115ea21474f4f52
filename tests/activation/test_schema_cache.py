"""Cached schemas are the same as schemas that are built."""

import json
import sys
from pathlib import Path

import pytest

from hubd.activation import Event, method
from hubd.activation.method import MethodMark, mark_of, read_method
from hubd.activation.schema_cache import SchemaCache, fingerprint
from hubd.wire.paths import Paths
from tests.support import Daemon, events_of

# The decorator hides the module of the same name.
METHOD_MODULE = sys.modules[MethodMark.__module__]


class Greeting(Event):
    text: str


def opened(file: Path) -> SchemaCache:
    cache = SchemaCache()
    cache.open(file)
    return cache


def test_a_cached_schema_is_not_built_again(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "schemas.json"
    first = opened(file)
    assert first.value("hubd.plugins.x", "X.y", lambda: {"type": "object"}) == {"type": "object"}
    first.save()
    assert file.stat().st_mode & 0o777 == 0o600
    again = opened(file).value("hubd.plugins.x", "X.y", lambda: {"type": "string"})
    assert again == {"type": "object"}


def test_schemas_of_other_packages_are_built_every_time(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    first = opened(file)
    # Python gives a function of executed text no module.
    for module in ("other.plugin", None):
        first.value(module, "X.y", lambda: {"type": "object"})
    first.value("hubd.plugins.x", "X.y", lambda: {})
    first.save()
    for module in ("other.plugin", None):
        again = opened(file).value(module, "X.y", lambda: {"type": "string"})
        assert again == {"type": "string"}


def test_a_changed_file_of_hubd_invalidates_the_cache(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    first = opened(file)
    first.value("hubd.plugins.x", "X.y", lambda: {"type": "object"})
    first.save()
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps({**content, "fingerprint": "of other files"}))
    assert opened(file).value("hubd.plugins.x", "X.y", dict) == {}


def test_a_cache_that_cannot_be_read_or_written_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    for content in (b"", b"{", b"[]", b'{"fingerprint": 3}', b"\xff"):
        file.write_bytes(content)
        assert opened(file).value("hubd.x", "y", lambda: {"type": "object"})
    blocked = tmp_path / "file" / "schemas.json"
    (tmp_path / "file").touch()
    unsaved = opened(blocked)
    unsaved.value("hubd.x", "y", dict)
    unsaved.save()
    assert not blocked.exists()


def test_without_a_file_nothing_is_cached() -> None:
    cache = SchemaCache()
    assert cache.value("hubd.x", "y", lambda: {"type": "object"}) == {"type": "object"}
    assert cache.value("hubd.x", "y", dict) == {}
    cache.save()


def test_the_fingerprint_is_the_same_for_the_same_files() -> None:
    assert fingerprint() == fingerprint()


def test_a_daemon_has_the_same_schemas_with_and_without_a_cache(home: Path) -> None:
    schemas = []
    # An empty cache, not the one that the daemons of other tests share.
    file = Path(Paths(str(home)).data) / "schemas.json"
    home.mkdir(mode=0o700)
    file.write_text("{}")
    for _ in range(2):
        with Daemon(home, fresh=True):
            # Before the schemas are built for a client, and after.
            before = events_of(home, "plexus.hash")
            schemas.append(
                [events_of(home, f"{name}.schema") for name in ("plexus", "arbor", "claudecode")]
            )
            assert before == events_of(home, "plexus.hash")
            assert before[0]["value"] == schemas[-1][0][0]["hash"]
    assert schemas[0] == schemas[1]
    assert json.loads(file.read_bytes())["texts"]


def test_the_signature_of_a_cached_method_is_read_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @method
    async def greet(self: object, name: str) -> Greeting:
        """Greet a person."""
        return Greeting(text=name)

    greet.__module__ = "hubd.plugins.x"
    cache = opened(tmp_path / "schemas.json")
    monkeypatch.setattr(METHOD_MODULE, "SCHEMA_CACHE", cache)
    mark = mark_of(greet)
    assert isinstance(mark, MethodMark)
    first, second = (read_method("X", greet, mark) for _ in range(2))
    assert "signature" in vars(first)
    assert "signature" not in vars(second)
    assert second.description == "Greet a person."
    assert second.events == (Greeting,)
    assert second.params_schema == first.params_schema


def test_a_method_with_a_mistake_is_never_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @method(completes={"wrong": "x.list"})
    async def greet(self: object, name: str) -> Greeting:
        """Greet a person."""
        return Greeting(text=name)

    greet.__module__ = "hubd.plugins.x"
    monkeypatch.setattr(METHOD_MODULE, "SCHEMA_CACHE", opened(tmp_path / "schemas.json"))
    mark = mark_of(greet)
    assert isinstance(mark, MethodMark)
    for _ in range(2):
        with pytest.raises(TypeError, match="unknown parameter 'wrong'"):
            read_method("X", greet, mark)
