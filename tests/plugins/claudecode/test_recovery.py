"""A hub starts after a crash while an agent of the earlier hub ignores all signals but SIGKILL."""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hubd.process.tree import Identity, kill_tree
from tests.plugins.claudecode.chat_support import Event, say
from tests.plugins.claudecode.daemon_support import Caller, daemon_and_caller
from tests.plugins.claudecode.scripted_chat import claude_hub
from tests.process.support import fake, is_running, limit
from tests.support import Daemon, call_events


def stubborn_claude(directory: Path) -> Path:
    """A program `claude` that starts two processes and ignores SIGTERM as they."""
    program = directory / "claude"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(fake('stubborn_parent'))}\n")
    program.chmod(0o755)
    return program


async def pids_told(caller: Caller, stream_id: str) -> list[int]:
    """The processes that the stubborn program says it has started, once it has."""
    seq = 0
    while True:
        [page] = await caller.call("poll", stream_id=stream_id, from_seq=seq, wait_ms=10_000)
        assert page["status"] == "running", page
        for record in page["events"]:
            if record["event"].get("event_type") == "unreadable":
                return pids_of_stream(stream_id)
        seq = page["read_position"]


def pids_of_stream(stream_id: str) -> list[int]:
    """The living processes that bear the mark of a chat."""
    mark = f"HUBD_STREAM={stream_id}".encode()
    collected = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                collected.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in collected if is_running(pid)]


@asynccontextmanager
async def killed_hub(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Daemon, Caller, str, list[int]]]:
    """A daemon that was killed, the chat it ran, and the processes that it has left behind."""
    variables = {"HUBD_CLAUDECODE_PROGRAM": str(stubborn_claude(directory))}
    starting = daemon_and_caller(directory, "claude", monkeypatch, **variables)
    async with starting as (daemon, caller, _):
        stream = await caller.begin(say("nothing"))
        try:
            left = await pids_told(caller, stream)
            daemon.kill()
            # The program, a process in its group and one in another process session. The
            # parent-death signal has not ended them.
            assert len(left) == 3
            assert pids_of_stream(stream) == left
            yield daemon, caller, stream, left
        finally:
            # Not even a test that fails may leave something behind.
            kill_tree(Identity(0, ""), stream)


def is_interrupted(events: list[Event]) -> bool:
    """Whether a chat ended with its hub."""
    return (events[-1]["type"], events[-1]["code"]) == ("error", "interrupted")


async def test_processes_that_ignore_signals_are_killed_before_a_chat_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limit(monkeypatch)
    async with killed_hub(tmp_path, monkeypatch) as (daemon, _, stream, left):
        monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "offline")
        async with claude_hub(daemon.home) as (hub, _):
            # Other calls do not wait for that.
            [listed] = await call_events(hub, "claudecode.list")
            assert [(each["name"], each["status"]) for each in listed["sessions"]] == [
                ("s", "interrupted")
            ]
            events = await call_events(hub, "claudecode.chat", name="s", prompt="say: on")
            assert events[-1]["type"] == "complete"
            # No waiting here: they were gone before the chat began.
            assert [is_running(pid) for pid in left] == [False, False, False]
            followed = await call_events(hub, "claudecode.follow", stream_id=stream)
            kept = [each["event"] for each in followed if each["type"] == "event"]
            assert is_interrupted(kept)
        [warning] = [
            each for each in caplog.records if "of a hub that crashed" in each.getMessage()
        ]
        assert warning.__dict__["stream_id"] == stream
        # No process is listed any more, so another hub has nothing to end.
        caplog.clear()
        async with claude_hub(daemon.home) as (hub, _):
            await call_events(hub, "claudecode.chat", name="s", prompt="say: on")
        assert not [each for each in caplog.records if "of a hub that crashed" in each.getMessage()]


@pytest.mark.soak  # it waits as long as a real agent is given to end by itself
async def test_a_daemon_kills_the_processes_of_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with killed_hub(tmp_path, monkeypatch) as (daemon, caller, stream, left):
        daemon.start()
        assert is_interrupted([each["event"] for each in await caller.records(stream)])
        caller.engine = "offline"
        going_on = await caller.begin(say("on"), name="another")
        events = [each["event"] for each in await caller.records(going_on)]
        assert events[-1]["type"] == "complete"
        assert [is_running(pid) for pid in left] == [False, False, False]
