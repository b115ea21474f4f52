"""The raw output of a child: both pipes in order of arrival, exactly, with back-pressure."""

import asyncio
import os
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from hubd.errors import Timeout
from hubd.process import patience
from hubd.process.child import ChildProcess
from tests.process.fake_child import HELD_BACK
from tests.process.support import child_that, limit, linux_only

pytestmark = linux_only


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch)


async def everything(child: ChildProcess) -> dict[str, bytes]:
    """Return all bytes by output."""
    texts = {"stdout": b"", "stderr": b""}
    async for stream, chunk in child.output():
        texts[stream] += chunk
    return texts


async def test_chunks_of_both_outputs_come_in_order_of_arrival() -> None:
    async with child_that("alternating", raw_output=True) as child:
        chunks = []
        await child.write(b".")
        async for stream, chunk in child.output():
            chunks.append((stream, chunk))
            if len(chunks) == 6:
                child.close_input()
            else:
                await child.write(b".")
    names = ["stdout", "stderr"] * 3
    assert chunks == [(name, b"%d" % number) for number, name in enumerate(names)]


async def test_blank_lines_binary_and_a_missing_line_end_stay(tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    data = b"\n \n\r\n" + bytes(range(256)) * 5000 + b"no end"
    file.write_bytes(data)
    async with child_that("copy", str(file), "70001", raw_output=True) as child:
        assert await everything(child) == {"stdout": data, "stderr": b""}


async def test_the_end_of_stderr_is_complete_and_its_tail_is_kept() -> None:
    async with child_that("noisy", "300000", raw_output=True) as child:
        texts = await everything(child)
        assert await child.wait() == 0
    assert texts["stdout"] == b"done\n"
    assert texts["stderr"] == b"e" * 300000 + "\nthe end €".encode()
    assert child.stderr_tail.endswith("the end €")


async def test_the_child_waits_for_a_slow_reader_of_both_outputs() -> None:
    async with child_that("flood_both", "50000000", raw_output=True) as child:
        async with aclosing(child.output()) as output:
            await anext(output)
            assert await child.wait() == HELD_BACK
        texts = await everything(child)
    assert min(map(len, texts.values())) > 0
    assert sum(map(len, texts.values())) < 2_000_000


async def test_a_cancelled_reader_of_the_output_loses_nothing() -> None:
    async with child_that("alternating", raw_output=True) as child:
        reader = asyncio.create_task(anext(child.output()))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait([reader])
        assert reader.cancelled()
        await child.write(b"....")
        child.close_input()
        assert await everything(child) == {"stdout": b"02", "stderr": b"13"}


async def test_silence_is_limited_for_the_output_too() -> None:
    async with child_that("deaf", raw_output=True, silence_seconds=0.2) as child:
        with pytest.raises(Timeout, match="printed nothing for"):
            await everything(child)
        assert child.status is None


async def test_a_process_that_holds_the_pipes_does_not_block_the_reader(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "LINGER_SECONDS", 0.05)
    async with child_that("hidden_parent", raw_output=True) as child:
        texts = await everything(child)
        assert await child.wait() == 0
        os.kill(int(texts["stdout"]), signal.SIGKILL)
    assert "its output is still open" in caplog.text


async def test_leaving_the_block_ends_a_child_whose_output_is_not_read() -> None:
    async with child_that("flood_both", "50000000", raw_output=True):
        pass
