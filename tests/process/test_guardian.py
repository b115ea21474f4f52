"""The guardian ends all processes of a child if hubd is killed."""

import os
import signal
import subprocess
from uuid import uuid4

from hubd.process.guardian import Guardian
from tests.process.another_hub import another_hub
from tests.process.support import child_that, linux_only, watching

pytestmark = linux_only


def test_all_processes_of_a_guarded_child_end_if_hubd_is_killed() -> None:
    # The child, a process in its session and one in another session ignore SIGTERM.
    with (
        another_hub(uuid4().hex, "stubborn_parent", guarded=True) as (hub, [pid, _, *others]),
        watching(pid, *others),
    ):
        hub.kill()


def test_a_process_without_the_mark_ends_too_if_it_is_in_the_session() -> None:
    with (
        another_hub(uuid4().hex, "stubborn_parent_of_unmarked", guarded=True) as (
            hub,
            [pid, _, other],
        ),
        watching(pid, other),
    ):
        # Without its parent it is not a descendant any more.
        hub.kill()
        os.kill(pid, signal.SIGKILL)


async def test_a_guardian_that_was_killed_is_replaced() -> None:
    guardian = Guardian()
    guardian.add("first")
    first = guardian._program
    assert first is not None
    first.kill()
    first.wait()
    guardian.add("second")
    second = guardian._program
    assert second is not None
    assert second.poll() is None
    guardian.remove("first")
    guardian.remove("second")
    end(second)


async def test_a_child_that_has_ended_is_not_guarded_any_more() -> None:
    guardian = Guardian()
    async with child_that("deaf") as child:
        guardian.add(child.mark)
        guardian.add(child.mark, child.identity)
        guardian.remove(child.mark)
        assert guardian._program is not None
        end(guardian._program)
        assert child.status is None


def end(program: subprocess.Popen[bytes]) -> None:
    """Close its pipe, as the end of hubd does, and wait until it has ended."""
    assert program.stdin is not None
    program.stdin.close()
    assert program.wait(20) == 0
