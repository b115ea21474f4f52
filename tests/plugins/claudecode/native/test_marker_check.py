"""The check of the installed `claude`: does it follow a marker?"""

import tempfile
from pathlib import Path

import pytest

from hubd.plugins.claudecode.native.marker_check import TOOL_USE_ID, check_marker
from tests.fakes.agent_process import claude_program
from tests.fakes.old_claude import VERSION, old_claude


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, which must be empty afterwards."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def script(directory: Path, text: str) -> Path:
    program = directory / "claude"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o700)
    return program


@pytest.mark.soak
async def test_the_real_claude_follows_a_marker(temporary: Path) -> None:
    support = await check_marker(Path(claude_program()))
    assert support == (True, "2.1.325", "")
    assert list(temporary.iterdir()) == []


@pytest.mark.soak
async def test_an_older_claude_follows_a_marker(temporary: Path) -> None:
    support = await check_marker(Path(old_claude()))
    assert support == (True, VERSION, "")
    assert list(temporary.iterdir()) == []


END = '{"type":"result"}'
INIT = '{"type":"system","subtype":"init","claude_code_version":"9.9.9"}'
ASK = (
    '{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool",'
    f'"tool_use_id":"{TOOL_USE_ID}"}}}}'
)


@pytest.mark.parametrize(
    ("text", "version", "reason"),
    [
        ("exit 1", "", "ended without asking"),
        ("echo hello", "", "not a message"),
        (f"echo '{INIT}'; echo '{END}'", "9.9.9", "continued without asking"),
        (f"echo '{ASK}'; read answer", "", "ended without a result"),
        (f"echo '{ASK.replace('toolu', 'other')}'", "", "another call"),
        (
            f"echo '{ASK}'; read answer; echo '{{\"type\":\"result\"}}'",
            "",
            "did not give the result",
        ),
        ("trap '' TERM; sleep 600", "", "did not finish the check within 0.3 s"),
    ],
)
async def test_a_program_that_does_not_follow_a_marker_is_reported(
    tmp_path: Path, temporary: Path, text: str, version: str, reason: str
) -> None:
    seconds = 0.3 if "sleep" in text else 20
    support = await check_marker(script(tmp_path, text), timeout_seconds=seconds)
    assert (support.works, support.version) == (False, version)
    assert reason in support.reason
    assert list(temporary.iterdir()) == []


async def test_a_missing_program_is_reported(tmp_path: Path, temporary: Path) -> None:
    program = tmp_path / "nothing"
    support = await check_marker(program)
    problem = f"[Errno 2] No such file or directory: '{program}'"
    assert support == (False, "", f"{program} cannot be run: {problem}")
    assert list(temporary.iterdir()) == []
