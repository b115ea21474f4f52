"""Schemas that are remembered between starts are those that would be made."""

import json
from pathlib import Path

from hubd.activation import schema_cache as described
from hubd.activation.schema_cache import Described
from hubd.wire.paths import Paths
from tests.support import Daemon, events_of


def remembered(file: Path) -> Described:
    fresh = Described()
    fresh.open(file)
    return fresh


def test_what_was_described_once_is_not_described_again(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "schemas.json"
    first = remembered(file)
    assert first.schema("hubd.plugins.x", "X.y", lambda: {"type": "object"}) == {"type": "object"}
    first.save()
    assert file.stat().st_mode & 0o777 == 0o600
    again = remembered(file).schema("hubd.plugins.x", "X.y", lambda: {"type": "string"})
    assert again == {"type": "object"}


def test_a_third_partys_schemas_are_made_anew_every_time(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    first = remembered(file)
    first.schema("somebody.plugin", "X.y", lambda: {"type": "object"})
    first.schema("hubd.plugins.x", "X.y", lambda: {})
    first.save()
    again = remembered(file).schema("somebody.plugin", "X.y", lambda: {"type": "string"})
    assert again == {"type": "string"}


def test_a_changed_file_of_hubd_makes_everything_be_described_anew(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    first = remembered(file)
    first.schema("hubd.plugins.x", "X.y", lambda: {"type": "object"})
    first.save()
    kept = json.loads(file.read_bytes())
    file.write_text(json.dumps({**kept, "fingerprint": "of other files"}))
    assert remembered(file).schema("hubd.plugins.x", "X.y", dict) == {}


def test_a_file_that_cannot_be_read_or_written_costs_nothing_but_time(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    for content in (b"", b"{", b"[]", b'{"fingerprint": 3}', b"\xff"):
        file.write_bytes(content)
        assert remembered(file).schema("hubd.x", "y", lambda: {"type": "object"})
    blocked = tmp_path / "file" / "schemas.json"
    (tmp_path / "file").touch()
    unsaved = remembered(blocked)
    unsaved.schema("hubd.x", "y", dict)
    unsaved.save()
    assert not blocked.exists()


def test_without_a_file_nothing_is_remembered() -> None:
    fresh = Described()
    assert fresh.schema("hubd.x", "y", lambda: {"type": "object"}) == {"type": "object"}
    assert fresh.schema("hubd.x", "y", dict) == {}
    fresh.save()


def test_the_fingerprint_is_the_same_for_the_same_files() -> None:
    assert described.fingerprint() == described.fingerprint()


def test_a_daemon_says_the_same_of_itself_whether_it_remembers_or_not(home: Path) -> None:
    said = []
    # Nothing that could be remembered, and nothing that other tests' daemons have left.
    file = Path(Paths(str(home)).data) / "schemas.json"
    home.mkdir(mode=0o700)
    file.write_text("{}")
    for _ in range(2):
        with Daemon(home):
            said.append(
                [events_of(home, f"{name}.schema") for name in ("plexus", "arbor", "claudecode")]
            )
    assert said[0] == said[1]
    assert json.loads(file.read_bytes())["schemas"]
