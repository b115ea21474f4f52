"""The command that tells people about approvals."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.plugins.claudecode.chat_support import asking, run, say
from tests.plugins.loopback.support import Desk, desk
from tests.support import PATIENCE_SECONDS


def script(directory: Path, text: str) -> str:
    """Write a command, and return the value of the setting `notify`."""
    file = directory / "notify"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


async def until_in(file: Path, text: str, count: int = 1) -> str:
    """Wait until a file contains a text so often."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not file.exists() or file.read_text().count(text) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # another process writes it
    return file.read_text()


def log_of(person: Desk) -> Path:
    return person.daemon.home / "hubd.log"


async def test_the_command_gets_each_approval_once_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify = script(tmp_path, f"cat >> {tmp_path}/told; echo >> {tmp_path}/told")
    async with desk(tmp_path, "offline", monkeypatch, HUBD_LOOPBACK_NOTIFY=notify) as person:
        ids = []
        for name in ("one", "two"):
            stream = await person.begin_touch(name, name=name)
            ids.append((await person.pending(stream))["id"])
        await until_in(tmp_path / "told", "\n", 2)
        # A restart is no new question.
        person.daemon.stop()
        person.daemon.start()
        third = await person.begin_touch("three", name="three")
        ids.append((await person.pending(third))["id"])
        lines = await until_in(tmp_path / "told", "\n", 3)
    approvals = [json.loads(line) for line in lines.splitlines()]
    assert sorted(row["id"] for row in approvals) == sorted(ids)
    assert {row["summary"] for row in approvals} == {
        f"echo x >> {n}" for n in ("one", "two", "three")
    }


async def test_a_call_that_a_rule_decides_is_not_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify = script(tmp_path, f"cat >> {tmp_path}/told; echo >> {tmp_path}/told")
    async with desk(tmp_path, "offline", monkeypatch, HUBD_LOOPBACK_NOTIFY=notify) as person:
        await person.one("loopback.rules_add", effect="allow", tool="Bash", pattern="touch *")
        prompt = asking("offline", run("touch a"), run("echo b > b"), say("Ready."))
        stream = await person.begin(prompt=prompt)
        approval = await person.pending(stream)
        lines = await until_in(tmp_path / "told", "\n")
        assert [json.loads(line)["id"] for line in lines.splitlines()] == [approval["id"]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo broken >&2; exit 3", "the command of notify ended with status 3 broken"),
        (None, "the command of notify ended with status 127"),
    ],
)
async def test_a_failing_command_is_logged_and_the_approval_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, reason: str
) -> None:
    notify = script(tmp_path, text) if text else str(tmp_path / "missing")
    async with desk(tmp_path, "offline", monkeypatch, HUBD_LOOPBACK_NOTIFY=notify) as person:
        stream = await person.begin_touch()
        await person.answer(await person.pending(stream))
        assert (await person.ended(stream))["status"] == "complete"
        await until_in(log_of(person), reason)


async def test_a_command_that_hangs_delays_nothing_and_ends_with_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify = script(tmp_path, f"echo $$ >> {tmp_path}/pids; exec sleep 600")
    async with desk(tmp_path, "offline", monkeypatch, HUBD_LOOPBACK_NOTIFY=notify) as person:
        for name in "abcdef":
            stream = await person.begin_touch(name, name=name)
            await person.answer(await person.pending(stream))
            assert (await person.ended(stream))["status"] == "complete"
        # No more than four run at once.
        pids = (await until_in(tmp_path / "pids", "\n", 4)).split()
        assert len(pids) == 4
        assert all(Path("/proc", pid).exists() for pid in pids)
        assert person.daemon.stop() == 0
        assert not any(Path("/proc", pid).exists() for pid in pids)
