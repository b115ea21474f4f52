"""The schema cache: atomic files, one per hub, read one method at a time."""

import json
import marshal
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plugins.echo import EchoPlugin
from hubd.plugins.health import HealthPlugin
from hubd.plugins.solar import Solar
from hubd.wire.schema import PluginSchema
from synapse.hub.cache import MAGIC, Cache, DamagedCache, cache_path, load, store
from tests.plexus.test_hub import build

Schemas = dict[str, PluginSchema]

JUNK = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.binary()),
    lambda below: st.one_of(st.lists(below), st.dictionaries(st.text(), below)),
    max_leaves=5,
)


def schemas_of_a_hub() -> Schemas:
    hub = build(EchoPlugin(), HealthPlugin(), Solar())
    return {node.path: json.loads(json.dumps(node.schema)) for node in hub.root.walk()}


def many_methods(count: int, mark: str = "") -> Schemas:
    """A hub whose root has this many methods, told apart by their descriptions."""
    methods: Any = [
        {"name": f"m{number}", "description": f"{mark}{number}", "params": {"x": [number] * 50}}
        for number in range(count)
    ]
    root: Any = {"hash": f"{mark}{count:016}", "description": "", "handles": [], "methods": methods}
    return {"plexus": root}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a good file."""
    path = tmp_path_factory.mktemp("cache") / "good"
    store(str(path), "plexus", "1.0.0", schemas_of_a_hub())
    return path.read_bytes()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "file"


def test_a_stored_schema_is_loaded_unchanged(path: Path) -> None:
    schemas = schemas_of_a_hub()
    store(str(path), "plexus", "1.2.3", schemas)
    cache = load(str(path))
    assert cache is not None
    assert (cache.root, cache.version) == ("plexus", "1.2.3")
    assert cache.hash == schemas["plexus"]["hash"]
    assert cache.paths() == list(schemas)
    for name, schema in schemas.items():
        methods = {entry["name"]: entry for entry in schema["methods"]}
        assert cache.methods(name) == list(methods)
        assert {key: cache.method(name, key) for key in methods} == methods
        assert {**cache.namespace(name), "methods": schema["methods"]} == schema
        assert cache.describe(name) == schema["description"]
        children = [child["namespace"] for child in schema.get("children", [])]
        assert cache.children(name) == children
    assert cache.children("") == cache.children("plexus")
    assert cache.describe_method("echo", "once") == "Return a message once."


def test_methods_that_every_namespace_answers_are_known_but_not_listed(path: Path) -> None:
    cache = store(str(path), "plexus", "1.0.0", schemas_of_a_hub())
    assert "hash" not in cache.methods("echo")
    assert cache.has_method("echo", "hash")
    assert cache.method("echo", "hash") == cache.method("plexus", "hash")
    assert cache.describe_method("echo", "hash") == ""
    assert not cache.has_method("nowhere", "hash")


def test_a_missing_file_is_an_empty_cache(tmp_path: Path) -> None:
    assert load(str(tmp_path / "missing")) is None
    assert load(str(tmp_path)) is None


@given(st.binary(max_size=200))
def test_a_foreign_file_is_ignored(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert load(str(path)) is None


@given(st.binary(max_size=200))
def test_the_magic_alone_does_not_make_a_cache(path: Path, data: bytes) -> None:
    path.write_bytes(MAGIC + data)
    assert load(str(path)) is None


@given(JUNK)
def test_an_index_of_another_shape_is_ignored(path: Path, junk: Any) -> None:
    index = marshal.dumps(junk)
    path.write_bytes(MAGIC + len(index).to_bytes(8, "big") + index)
    assert load(str(path)) is None


@given(st.data())
def test_a_file_that_was_cut_short_is_ignored(
    path: Path, whole: bytes, data: st.DataObject
) -> None:
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert load(str(path)) is None


@given(st.data())
def test_a_file_with_a_damaged_start_is_ignored(
    path: Path, whole: bytes, data: st.DataObject
) -> None:
    path.write_bytes(whole)
    found = load(str(path))
    assert found is not None
    place = data.draw(st.integers(0, found._start - 1))
    flipped = whole[place] ^ data.draw(st.integers(1, 255))
    path.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
    assert load(str(path)) is None


def test_a_file_of_another_version_is_ignored(path: Path, whole: bytes) -> None:
    path.write_bytes(whole.replace(b"synapse cache ", b"synapse cache 9", 1))
    assert load(str(path)) is None


def test_a_damaged_file_is_replaced_by_the_next_store(path: Path) -> None:
    path.write_bytes(MAGIC)
    assert store(str(path), "plexus", "1.0.0", many_methods(2)).methods("plexus") == ["m0", "m1"]


def test_reading_one_of_a_thousand_methods_reads_no_other(path: Path) -> None:
    """Reading one method does not read the others, which are damaged."""
    schemas = many_methods(1000)
    cache = store(str(path), "plexus", "1.0.0", schemas)
    _, offset, length, _ = cache._entry("plexus")["methods"]["m500"]
    end = cache._start + cache._places["plexus"][0]
    with path.open("r+b") as file:
        file.seek(cache._start)
        file.write(b"\xff" * offset)
        file.seek(length, os.SEEK_CUR)
        file.write(b"\xff" * (end - file.tell()))
    again = load(str(path))
    assert again is not None
    assert again.method("plexus", "m500") == schemas["plexus"]["methods"][500]
    assert length < end / 900


def test_reading_one_namespace_reads_no_other(path: Path) -> None:
    """Another namespace is damaged, and only reading that one fails."""
    schema = many_methods(2)["plexus"]
    cache = store(str(path), "plexus", "1.0.0", {"plexus": schema, "notes": schema})
    with path.open("r+b") as file:
        file.seek(cache._start + cache._places["notes"][0])
        file.write(b"\xff")
    again = load(str(path))
    assert again is not None
    assert again.has_namespace("notes")
    assert again.methods("plexus") == ["m0", "m1"]
    with pytest.raises(DamagedCache):
        again.methods("notes")


def test_a_damaged_method_is_noticed(path: Path) -> None:
    cache = store(str(path), "plexus", "1.0.0", many_methods(3))
    _, offset, length, _ = cache._entry("plexus")["methods"]["m1"]
    with path.open("r+b") as file:
        file.seek(cache._start + offset + length // 2)
        file.write(b"\xff")
    again = load(str(path))
    assert again is not None
    assert again.method("plexus", "m0")
    with pytest.raises(DamagedCache):
        again.method("plexus", "m1")


def test_a_loaded_cache_survives_the_replacement_of_its_file(path: Path) -> None:
    before = many_methods(5, "before")
    cache = store(str(path), "plexus", "1.0.0", before)
    after = store(str(path), "plexus", "1.0.0", many_methods(50, "after"))
    assert cache.method("plexus", "m4") == before["plexus"]["methods"][4]
    assert after.method("plexus", "m4")["description"] == "after4"


def test_a_reader_gets_the_old_or_the_new_file_as_a_whole(path: Path) -> None:
    versions = [many_methods(3, "old"), many_methods(300, "new")]
    store(str(path), "plexus", "1.0.0", versions[0])

    def write() -> None:
        for number in range(60):
            store(str(path), "plexus", "1.0.0", versions[number % 2])

    def is_whole(cache: Cache | None) -> bool:
        assert cache is not None
        mark = cache.hash[:3]
        return bool(cache.method("plexus", "m2")["description"] == f"{mark}2")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            assert is_whole(load(str(path)))
        writing.result()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_directory_is_made_for_the_user_alone(tmp_path: Path) -> None:
    store(str(tmp_path / "new" / "file"), "plexus", "1.0.0", many_methods(1))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


ADDRESSES = st.builds("ws://{}".format, st.text(min_size=1, max_size=300))


@given(st.lists(st.one_of(st.just(""), ADDRESSES), min_size=2, max_size=6, unique=True))
def test_every_hub_has_its_own_file(hubs: list[str]) -> None:
    names = [cache_path("/cache", hub) for hub in hubs]
    assert len(set(names)) == len(hubs)
    for name in names:
        assert Path(name).parent == Path("/cache")
        assert len(os.fsencode(Path(name).name)) <= 255


@pytest.mark.parametrize("pair", [("ws://a:1", "ws://a/1"), ("ws://a_b", "ws://a:b")])
def test_addresses_that_look_alike_are_distinguished(pair: tuple[str, str]) -> None:
    assert cache_path("/cache", pair[0]) != cache_path("/cache", pair[1])
