"""All processes of a command end with it, and its record stays."""

from contextlib import aclosing
from pathlib import Path

import pytest

from hubd.activation import Timeout
from hubd.errors import Overloaded
from hubd.plugins.bash import places
from hubd.testing import InProcessHub
from tests.plugins.bash.support import STUBBORN, bash_hub, data_of, listed, run
from tests.process.support import is_running, linux_only

pytestmark = linux_only


async def test_a_timeout_ends_all_processes_and_keeps_the_output(bash: InProcessHub) -> None:
    with pytest.raises(Timeout, match=r"within 0.5 s and was ended") as failure:
        await run(bash, STUBBORN, timeout_secs=0.5)
    data = (await bash.resolve(failure.value.message.rpartition(" ")[2])).data
    assert (data["status"], data["exit_code"]) == ("timed_out", 137)
    pids = [int(word) for word in data["stdout"].split()]
    assert [is_running(pid) for pid in pids] == [False, False]


async def test_the_last_words_before_a_timeout_are_recorded(bash: InProcessHub) -> None:
    command = "trap 'echo goodbye; exit 9' TERM; echo hello; while :; do sleep 0.02; done"
    with pytest.raises(Timeout) as failure:
        await run(bash, command, timeout_secs=0.4)
    data = (await bash.resolve(failure.value.message.rpartition(" ")[2])).data
    assert (data["stdout"], data["exit_code"]) == ("hello\ngoodbye\n", 9)


async def test_cancelling_ends_all_processes_and_keeps_the_output(bash: InProcessHub) -> None:
    async with aclosing(bash.call("bash.execute", command=STUBBORN)) as call:
        pids = [int(word) for word in (await anext(call))["line"].split()]
        assert [is_running(pid) for pid in pids] == [True, True]
    assert [is_running(pid) for pid in pids] == [False, False]
    [row] = await listed(bash)
    assert (row["status"], row["exit_code"]) == ("cancelled", 137)
    assert (await data_of(bash, row))["stdout"] == f"{pids[0]} {pids[1]}\n"


async def test_a_process_in_the_background_ends_with_its_command(bash: InProcessHub) -> None:
    [line, end] = await run(bash, "setsid tail -f /dev/null & echo $!")
    assert end["code"] == 0
    assert not is_running(int(line["line"]))


async def test_processes_that_multiply_end(bash: InProcessHub) -> None:
    # Each starts two others, down to a depth: 2**6 processes.
    others = "f $(($1 - 1)) & f $(($1 - 1)) &"
    bomb = f"f() {{ [ $1 = 0 ] || {{ {others} }}; echo $BASHPID; exec tail -f /dev/null; }}; f 5"
    pids: list[int] = []
    async with aclosing(bash.call("bash.execute", command=bomb)) as call:
        while len(pids) < 40:
            pids.append(int((await anext(call))["line"]))
    assert [pid for pid in pids if is_running(pid)] == []


async def test_no_files_are_left_open(bash: InProcessHub) -> None:
    await run(bash, "true")
    # The search index opens its files in the background.
    assert [event async for event in bash.call("plexus.search", query="true")]
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    for _ in range(3):
        await run(bash, "echo x; echo y >&2")
        with pytest.raises(Timeout):
            await run(bash, "tail -f /dev/null", timeout_secs=0.05)
    assert len(list(files.iterdir())) == before


async def test_a_command_without_a_place_is_refused_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 0.1)
    async with (
        bash_hub(tmp_path, max_running=1) as h,
        aclosing(h.call("bash.execute", command="echo; tail -f /dev/null")) as call,
    ):
        await anext(call)
        with pytest.raises(Overloaded, match="1 commands are running"):
            await run(h, "true")
