"""Where a hub lives: both programs work it out alone and must agree."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.wire.paths import MAX_SOCKET_PATH, Paths, distrusted

UID = os.getuid()
# Too long by itself for a socket inside it.
LONG = "/" + "d" * 120
VARIABLES = (
    "HUBD_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a home directory; each test sets the variables it needs."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/home/bob")


def files(paths: Paths) -> dict[str, str]:
    """Every path by name."""
    return {name: getattr(paths, name) for name in Paths.__slots__}


def test_a_home_holds_everything() -> None:
    assert files(Paths("/srv/hub")) == {
        "cache": "/srv/hub/cache",
        "config": "/srv/hub/config.toml",
        "data": "/srv/hub",
        "database": "/srv/hub/hub.db",
        "defaults": "/srv/hub/synapse-defaults",
        "lock": "/srv/hub/hubd.lock",
        "log": "/srv/hub/hubd.log",
        "mcp_socket": "/srv/hub/hub.mcp",
        "record": "/srv/hub/hubd.json",
        "results": "/srv/hub/results",
        "socket": "/srv/hub/hub.sock",
        "token": "/srv/hub/token",
    }
    assert Paths("/srv/hub").directories == ("/srv/hub",)


def test_hubd_home_is_the_home_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBD_HOME", "/srv/env")
    assert files(Paths()) == files(Paths("/srv/env"))
    assert files(Paths("/srv/given")) != files(Paths())


def test_an_empty_hubd_home_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    without = files(Paths())
    monkeypatch.setenv("HUBD_HOME", "")
    assert files(Paths()) == without


@pytest.mark.parametrize("spelling", ["~/hub", "hub", "./x/../hub", "/home/bob/hub/"])
def test_every_spelling_of_a_home_is_the_same_home(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    absolute = spelling.replace("/home/bob", str(tmp_path))
    assert files(Paths(absolute)) == files(Paths(str(tmp_path / "hub")))


def test_without_a_home_the_users_standard_directories_are_used() -> None:
    paths = Paths()
    assert paths.config == "/home/bob/.config/hubd/config.toml"
    assert paths.database == "/home/bob/.local/share/hubd/hub.db"
    assert paths.token == "/home/bob/.local/share/hubd/token"
    assert paths.log == "/home/bob/.local/state/hubd/hubd.log"
    assert paths.socket == "/home/bob/.local/share/hubd/hub.sock"
    assert paths.directories == ("/home/bob/.local/share/hubd", "/home/bob/.local/state/hubd")


@pytest.mark.parametrize(
    ("variable", "member", "expected"),
    [
        ("XDG_CONFIG_HOME", "config", "/xdg/hubd/config.toml"),
        ("XDG_DATA_HOME", "database", "/xdg/hubd/hub.db"),
        ("XDG_DATA_HOME", "token", "/xdg/hubd/token"),
        ("XDG_STATE_HOME", "log", "/xdg/hubd/hubd.log"),
        ("XDG_DATA_HOME", "socket", "/xdg/hubd/hub.sock"),
    ],
)
def test_an_xdg_variable_moves_its_files_unless_it_is_relative(
    variable: str, member: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = files(Paths())
    monkeypatch.setenv(variable, "/xdg")
    assert files(Paths())[member] == expected
    for ignored in ("relative/xdg", "~/xdg", ""):
        monkeypatch.setenv(variable, ignored)
        assert files(Paths()) == default


def test_xdg_variables_do_not_touch_an_explicit_home(monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(Paths("/srv/hub"))
    for variable in VARIABLES[1:]:
        monkeypatch.setenv(variable, "/xdg")
    assert files(Paths("/srv/hub")) == before


def test_a_session_with_another_runtime_directory_finds_the_same_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = files(Paths())
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert files(Paths()) == before


@pytest.mark.parametrize(
    ("runtime", "temporary", "root"),
    [
        ("/run/user/1", "/var/tmp", "/run/user/1"),
        ("", "/var/tmp", "/var/tmp"),
        ("run", "/var/tmp", "/var/tmp"),
        (LONG, "/var/tmp", "/var/tmp"),
        ("", "tmp", "/tmp"),
        (LONG, LONG, "/tmp"),
        ("", "", "/tmp"),
    ],
)
def test_a_socket_with_a_long_path_moves_to_the_first_short_directory(
    runtime: str, temporary: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("TMPDIR", temporary)
    paths = Paths(LONG)
    directory, name = os.path.split(paths.socket)
    assert directory == f"{root}/hubd-{UID}"
    assert name.endswith(".sock")
    assert paths.database == f"{LONG}/hub.db"
    assert directory in paths.directories


def test_a_socket_moves_only_if_its_path_is_too_long() -> None:
    room = MAX_SOCKET_PATH - len("/hub.sock")
    for fits in ("/" + "h" * (room - 1), "/" + "h" * (room - 3) + "é"):
        assert Paths(fits).socket == f"{fits}/hub.sock"
        assert Paths(f"{fits}h").socket.startswith("/tmp/")


def test_a_moved_socket_is_the_same_each_time_and_differs_between_homes(tmp_path: Path) -> None:
    target, link = tmp_path / ("t" * 120), tmp_path / ("l" * 120)
    target.mkdir()
    link.symlink_to(target)
    moved = Paths(str(target)).socket
    assert Paths(str(target)).socket == moved
    assert Paths(str(link)).socket == moved
    assert Paths(str(tmp_path / ("o" * 120))).socket != moved


@pytest.mark.parametrize(
    ("mode", "trusted"), [(0o700, True), (0o755, True), (0o770, False), (0o707, False)]
)
def test_a_socket_is_trusted_only_if_no_other_user_can_write_to_its_directory(
    mode: int, trusted: bool, tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(mode)
    words = None if trusted else f"{directory} can be written by others"
    assert distrusted(str(directory / "hub.sock")) == words


def test_a_missing_directory_is_trusted(tmp_path: Path) -> None:
    assert distrusted(str(tmp_path / "none" / "hub.sock")) is None


@pytest.mark.parametrize(("mode", "trusted"), [(0o700, True), (0o777, False)])
def test_a_link_is_trusted_if_its_target_is(mode: int, trusted: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    target.chmod(mode)
    link.symlink_to(target)
    assert (distrusted(str(link / "hub.sock")) is None) == trusted


segments = st.lists(st.text("abé漢", min_size=1, max_size=40), max_size=6)


@given(home=segments, runtime=segments, temporary=segments)
def test_no_socket_path_is_longer_than_the_system_allows(
    home: list[str], runtime: list[str], temporary: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", "/" + "/".join(runtime))
        patch.setenv("TMPDIR", "/" + "/".join(temporary))
        for paths in (Paths("/" + "/".join(home)), Paths()):
            assert len(os.fsencode(paths.socket)) <= MAX_SOCKET_PATH < 104
