"""The paths of session files, and the list of sessions."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import InvalidParams, Unavailable
from hubd.offline_agent.project import name_of
from hubd.plugins.claudecode.native import (
    conversation,
    list_sessions,
    projects_directory,
    read_history,
    session_file,
)
from hubd.plugins.claudecode.native.files import project_name
from hubd.plugins.claudecode.native.listing import EDGE, PROMPT_LENGTH, WHOLE
from tests.plugins.claudecode.native.native_content import (
    IMAGE,
    RECORDED,
    SESSION,
    encoded,
    entry,
    text,
)

OTHER = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "config")}


def place(
    environ: dict[str, str],
    content: bytes,
    cwd: str = "/a/b",
    session_id: str = SESSION,
    at: int = 1,
) -> Path:
    """Put a file where claude would have it, last written at a time."""
    path = session_file(environ, Path(cwd), session_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (at, at))
    return path


def test_the_configured_directory_wins_over_home() -> None:
    assert projects_directory({"HOME": "/h"}) == Path("/h/.claude/projects")
    assert projects_directory({"HOME": "/h", "CLAUDE_CONFIG_DIR": ""}) == Path(
        "/h/.claude/projects"
    )
    assert projects_directory({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == Path("/c/projects")
    with pytest.raises(Unavailable, match="HOME is not set"):
        projects_directory({})


# As claude 2.1.325 named its directories when it was run there.
NAMES = {
    "/tmp/nat/names/project/ümläut.x_y z": "-tmp-nat-names-project--ml-ut-x-y-z",
    # Written as letters with accents put on them.
    "/tmp/nat/names/project/u\u0308mla\u0308ut": "-tmp-nat-names-project-u-mla-ut",
    "/tmp/nat/names/project/em😀ji": "-tmp-nat-names-project-em--ji",
    f"/tmp/explore/run/{'l' * 120}/{'m' * 120}": (
        f"-tmp-explore-run-{'l' * 120}-{'m' * 62}-ljb1js"
    ),
    f"/tmp/nat/names/project/{'l' * 120}/😀é{'m' * 110}": (
        f"-tmp-nat-names-project-{'l' * 120}----{'m' * 53}-fp0yax"
    ),
}


@pytest.mark.parametrize("cwd", NAMES)
def test_a_project_has_the_name_that_claude_gives_it(environ: dict[str, str], cwd: str) -> None:
    path = session_file(environ, Path(cwd), SESSION)
    assert path == projects_directory(environ) / NAMES[cwd] / f"{SESSION}.jsonl"


@given(st.text(st.characters(), min_size=1, max_size=300))
def test_any_directory_has_a_valid_project_name(path: str) -> None:
    named = name_of(path)
    assert 0 < len(named) <= 208
    assert set(named) <= {"-", *ascii_letters, *digits}


def test_a_link_has_the_project_name_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert project_name(tmp_path / "link") == project_name(tmp_path / "real")


def test_a_session_is_found_in_any_project(environ: dict[str, str]) -> None:
    older = place(environ, b"", "/begun/here", at=1)
    assert session_file(environ, Path("/elsewhere"), SESSION) == older
    newer = older.parent.with_name("-somewhere") / older.name
    newer.parent.mkdir()
    newer.write_bytes(b"")
    assert session_file(environ, Path("/elsewhere"), SESSION) == newer
    assert session_file(environ, Path("/begun/here"), SESSION) == older


@pytest.mark.parametrize(
    "session_id",
    ["", "../../etc/passwd", "nonsense", SESSION.replace("-", ""), f"{SESSION}/x", "*"],
)
def test_invalid_session_ids_are_refused(environ: dict[str, str], session_id: str) -> None:
    with pytest.raises(InvalidParams, match="not the id of one of Claude's sessions"):
        session_file(environ, Path("/"), session_id)


def test_a_list_describes_each_session_with_the_newest_first(environ: dict[str, str]) -> None:
    recorded = (RECORDED / "compacted.jsonl").read_bytes()
    older = place(environ, recorded, "/home/me/project", at=1_700_000_000)
    newer = place(environ, encoded(entry("a", None, "hi", cwd="/b")), "/b", OTHER, at=1_700_000_001)
    first, second = list_sessions(environ)
    assert (first.path, second.path) == (newer, older)
    assert (first.prompt, first.messages, first.cwd) == ("hi", 1, "/b")
    assert second.session_id == SESSION
    assert second.cwd == "/home/me/project"
    assert second.modified == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert second.prompt == "SAY[one]"
    assert second.messages == len(conversation(read_history(older)).messages)
    assert second.size == len(recorded)
    assert list_sessions(environ, limit=1) == [first]
    assert list_sessions(environ, limit=0) == []


def test_a_list_of_one_directory_has_only_its_sessions(environ: dict[str, str]) -> None:
    own = place(environ, encoded(entry("a", None, "own", cwd="/a/b")))
    # Another path with the same project name, a path with another name, and a moved file.
    same_name = encoded(entry("a", None, "other", cwd="/a-b"))
    own.with_name(f"{OTHER}.jsonl").write_bytes(same_name)
    third, fourth = OTHER.replace("9", "8"), OTHER.replace("9", "7")
    place(environ, encoded(entry("a", None, "elsewhere", cwd="/c")), "/c", third)
    moved = encoded(entry("a", None, "moved", cwd="/what\0ever\ud800"))
    own.with_name(f"{fourth}.jsonl").write_bytes(moved)
    assert {each.prompt for each in list_sessions(environ, Path("/a/b"))} == {"own", "moved"}
    assert {each.prompt for each in list_sessions(environ, Path("/a-b"))} == {"other", "moved"}
    assert len(list_sessions(environ)) == 4
    assert list_sessions(environ, Path("/nowhere")) == []


def test_a_long_directory_is_found_under_the_hash_of_another_version(
    environ: dict[str, str],
) -> None:
    cwd = Path("/", "l" * 120, "m" * 120)
    path = session_file(environ, cwd, SESSION)
    for number, begun in enumerate([str(cwd), f"{cwd}n"]):
        other = path.parent.with_name(f"{path.parent.name[:200]}-other{number}") / path.name
        other.parent.mkdir(parents=True)
        other.write_bytes(encoded(entry("a", None, begun, cwd=begun)))
    assert [session.cwd for session in list_sessions(environ, cwd)] == [str(cwd)]


def test_other_and_unreadable_files_are_left_out(environ: dict[str, str]) -> None:
    good = place(environ, encoded(entry("a", None, "good")))
    directory = good.parent
    (directory / "notes.txt").write_text("x")
    (directory / "agent-1.jsonl").write_bytes(good.read_bytes())
    (directory / SESSION / "subagents").mkdir(parents=True)
    (directory.parent / "a file").write_text("x")

    def name(digit: str) -> Path:
        return directory / f"{digit}{OTHER[1:]}.jsonl"

    name("1").write_bytes(b"garbage\n\xff\xff\n[]\n")
    name("2").write_bytes(b"")
    name("3").mkdir()
    os.mkfifo(name("4"))
    name("5").symlink_to("nowhere")
    name("6").write_bytes(b'{"type": "summary", "summary": "only bookkeeping"}\n')
    name("7").write_bytes(b"\0" * (WHOLE + 1))
    assert [session.path for session in list_sessions(environ)] == [good]


def test_without_projects_the_list_is_empty(environ: dict[str, str]) -> None:
    assert list_sessions(environ) == []


def test_only_the_ends_of_a_large_file_are_read(environ: dict[str, str]) -> None:
    path = place(environ, encoded(entry("a", None, "the first prompt", cwd="/a/b")))
    last = encoded(entry("b", "a", "the last"))
    with path.open("r+b") as file:
        # Two gigabytes that are not there: reading them would take long, and much memory.
        file.seek(2 << 30)
        file.write(b"\n" + last)
    [session] = list_sessions(environ)
    assert (session.prompt, session.cwd) == ("the first prompt", "/a/b")
    assert session.messages is None
    assert session.size == (2 << 30) + 1 + len(last)


def test_a_prompt_is_found_in_a_first_line_longer_than_the_part_that_is_read(
    environ: dict[str, str],
) -> None:
    picture = {**IMAGE, "source": {"data": "A" * WHOLE}}
    line = entry("a", None, [text("what is this?"), picture])
    tail = entry("b", "a", "and this?", cwd="/a/b")
    place(environ, encoded(line, tail))
    [session] = list_sessions(environ)
    assert (session.prompt, session.cwd) == ("what is this?", "/a/b")
    assert len(json.dumps(line)) > EDGE


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("  two\n\n lines\t", "two lines"),
        ("x" * 1000, "x" * PROMPT_LENGTH),
        ([IMAGE], ""),
        ([IMAGE, text("look")], "look"),
        ("<command-name>/compact</command-name>", ""),
    ],
)
def test_the_beginning_of_the_first_prompt_is_shown_on_one_line(
    environ: dict[str, str], content: str | list[dict[str, object]], shown: str
) -> None:
    place(environ, encoded(entry("m", None, "a caveat", isMeta=True), entry("a", "m", content)))
    assert [session.prompt for session in list_sessions(environ)] == [shown]


def test_a_file_that_cannot_be_opened_is_left_out(environ: dict[str, str]) -> None:
    good = place(environ, encoded(entry("a", None, "good")))
    # Root may read everything, but not follow links in a circle.
    circle = good.with_name(f"{OTHER}.jsonl")
    circle.symlink_to(circle)
    loop = good.parent.with_name("-loop")
    loop.symlink_to(loop)
    assert [session.path for session in list_sessions(environ)] == [good]
