"""The records of commands: lists, deletion, retention, and the end of a daemon."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from hubd.activation import Ambiguous, Conflict, NotFound
from hubd.errors import HandleTargetMissing
from hubd.plugins.bash import store
from hubd.storage import ids
from hubd.storage.search import service
from hubd.testing import InProcessHub
from tests.plugins.bash.support import bash_hub, data_of, listed, run
from tests.process.support import linux_only
from tests.support import PATIENCE_SECONDS

pytestmark = linux_only


async def stored_contents(h: InProcessHub) -> int:
    row = await h.database.fetch_one("SELECT count(*) AS count FROM hub_blobs WHERE refs > 0")
    assert row is not None
    return int(row["count"])


async def begin(h: InProcessHub, execution_id: bytes) -> None:
    """Store a command that never ends."""
    await h.database.transaction(
        lambda tx: store.begin(tx, execution_id, command="x", cwd="/", shell="sh", now=1)
    )


async def test_the_list_has_the_newest_first(bash: InProcessHub) -> None:
    for number in range(3):
        await run(bash, f"echo {number}; exit {number}")
    rows = await listed(bash)
    assert [row["exit_code"] for row in rows] == [2, 1, 0]
    assert (rows[0]["command"], rows[0]["size"]) == ("echo 2; exit 2", 2)
    assert len(await listed(bash, limit=2)) == 2
    assert (await data_of(bash, rows[1]))["stdout"] == "1\n"


async def test_ids_can_be_shortened(bash: InProcessHub) -> None:
    for execution_id in (b"\x11" * 16, b"\x11" * 4 + b"\x22" * 12):
        await begin(bash, execution_id)
    execution = await bash.call_one("bash.get", execution_id="111111112")
    assert execution["execution_id"] == ids.text(b"\x11" * 4 + b"\x22" * 12)
    with pytest.raises(Ambiguous):
        await bash.call_one("bash.get", execution_id="11111111")
    for unknown in ("22222222", "1111", "zzzzzzzzz"):
        with pytest.raises(NotFound, match="no execution"):
            await bash.call_one("bash.get", execution_id=unknown)


async def test_deletion_removes_the_output_that_no_other_command_has(bash: InProcessHub) -> None:
    [_, first] = await run(bash, "echo same")
    [_, second] = await run(bash, "echo same # again")
    assert await stored_contents(bash) == 1
    await bash.call_one("bash.delete", execution_id=first["handle"].split(":")[3])
    assert (await data_of(bash, second))["stdout"] == "same\n"
    with pytest.raises(HandleTargetMissing):
        await bash.resolve(first["handle"])
    await bash.call_one("bash.delete", execution_id=second["handle"].split(":")[3])
    assert await stored_contents(bash) == 0
    with pytest.raises(NotFound):
        await bash.call_one("bash.delete", execution_id=second["handle"].split(":")[3])


async def test_a_running_command_is_not_deleted(bash: InProcessHub) -> None:
    async with aclosing(bash.call("bash.execute", command="echo; tail -f /dev/null")) as call:
        await anext(call)
        [row] = await listed(bash)
        with pytest.raises(Conflict, match="is running"):
            await bash.call_one("bash.delete", execution_id=row["execution_id"])


async def test_commands_of_a_daemon_that_died_are_marked(tmp_path: Path) -> None:
    async with bash_hub(tmp_path) as h:
        [_, end] = await run(h, "echo done")
        await begin(h, b"r" * 16)
    async with bash_hub(tmp_path) as h:
        interrupted, complete = await listed(h)
        assert (interrupted["status"], complete["status"]) == ("interrupted", "complete")
        # Its handle has no exit status.
        assert interrupted["handle"] == f"bash@1.0.0::execute:{ids.text(b'r' * 16)}"
        data = await data_of(h, interrupted)
        assert (data["stdout"], data["exit_code"]) == ("", None)
        assert (await data_of(h, end))["stdout"] == "done\n"


async def test_old_commands_are_removed_after_the_days_of_the_setting(tmp_path: Path) -> None:
    async with bash_hub(tmp_path) as h:
        [_, old] = await run(h, "echo old")
        [_, new] = await run(h, "echo new")
        await h.database.execute(
            "UPDATE bash_executions SET ended_at = 1 WHERE command = ?", "echo old"
        )
    async with bash_hub(tmp_path) as h:
        assert len(await listed(h)) == 2
    async with bash_hub(tmp_path, retention_days=30) as h, asyncio.timeout(PATIENCE_SECONDS):
        while len(rows := await listed(h)) == 2:  # noqa: ASYNC110 -- the cleanup sets no event
            await asyncio.sleep(0)
        assert rows[0]["handle"] == new["handle"]
        with pytest.raises(HandleTargetMissing):
            await h.resolve(old["handle"])


async def test_commands_and_their_outputs_are_found_until_their_deletion(
    bash: InProcessHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 60.0)
    *_, end = await run(bash, "printf 'ze%s\\n' bra; printf 'o%s' kapi >&2")
    for query in ("zebra", "okapi printf", "printf 'ze%s"):
        [hit] = [hit async for hit in bash.call("plexus.search", query=query, kind="output")]
        assert hit["handle"] == end["handle"]
    await bash.call_one("bash.delete", execution_id=end["handle"].split(":")[3])
    assert [hit async for hit in bash.call("plexus.search", query="zebra")] == []
