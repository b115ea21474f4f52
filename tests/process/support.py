"""Children that misbehave, short time limits, and the state of processes."""

import asyncio
import json
import os
import select
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import ChildProcess
from hubd.process import child as child_module
from hubd.process import tree
from hubd.process.child import ChildProcess as Child
from tests.support import PATIENCE_SECONDS

# The limits are for real agents; the tests need not wait for a fake one that ignores signals.
HURRY_SECONDS = 0.2

# The buffers of asyncio would take a little more.
MORE_THAN_A_PIPE_HOLDS = 100_000

FAKE = Path(__file__).parent / "fake_child.py"

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="descendants are found through /proc"
)


class Limits:
    """The time limits of the children in the current test."""

    eof_seconds = HURRY_SECONDS


def fake(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(FAKE), *arguments]


def limit(
    monkeypatch: pytest.MonkeyPatch, *, eof: float = HURRY_SECONDS, term: float = HURRY_SECONDS
) -> None:
    """Set the seconds for a child to end after its input, and after SIGTERM."""
    monkeypatch.setattr(Limits, "eof_seconds", eof)
    for module in (child_module, tree):
        monkeypatch.setattr(module, "TERM_SECONDS", term)


@asynccontextmanager
async def child_that(*behaviour: str, **options: Any) -> AsyncIterator[Child]:
    """Run a fake child; it has ended when the block is left."""
    child = Child(
        fake(*behaviour),
        cwd=Path("/"),
        env={"PATH": "/usr/bin"},
        **{"eof_seconds": Limits.eof_seconds, **options},
    )
    async with asyncio.timeout(PATIENCE_SECONDS), child:
        yield child
    assert not is_running(child.identity.pid)


async def send(child: ChildProcess, message: Any) -> None:
    """Write a line of JSON."""
    await child.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


async def first_line(child: ChildProcess) -> bytes:
    async with aclosing(child.lines()) as lines:
        async for line in lines:
            return line
    raise AssertionError(f"no line, but: {child.stderr_tail}")


async def all_lines(child: ChildProcess) -> list[bytes]:
    return [line async for line in child.lines()]


async def pids_of(child: ChildProcess) -> list[int]:
    """Return the pids that a `parent` prints, all of them running."""
    pids = [int(word) for word in (await first_line(child)).split()]
    assert all(map(is_running, pids))
    return pids


def is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@contextmanager
def watching(*pids: int) -> Iterator[None]:
    """After the block, wait until these processes have ended; they may be children of others."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        yield
        for pid, descriptor in zip(pids, descriptors, strict=True):
            ended, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
            assert ended, f"{pid} does not end"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
