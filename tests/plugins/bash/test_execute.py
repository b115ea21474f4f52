"""Commands: their output as it comes, and exactly as a record."""

import asyncio
import base64
from contextlib import aclosing
from pathlib import Path

import pytest

from hubd.activation import Actor, InvalidParams, PermissionDenied, Unavailable
from hubd.plugins.bash.line_pieces import MAX_PIECE_BYTES
from hubd.testing import InProcessHub
from hubd.wire.handle import parse
from tests.plugins.bash.support import bash_hub, data_of, listed, run
from tests.process.support import linux_only
from tests.support import PATIENCE_SECONDS

pytestmark = linux_only


async def test_lines_come_in_order_and_the_exit_names_the_record(bash: InProcessHub) -> None:
    # The command waits until its line was read, so the order of the outputs is certain.
    command = "echo out; read -r _ < a; echo err >&2; read -r _ < b; printf 'no end'; exit 3"
    await run(bash, "mkfifo a b")
    names = iter("ab")
    events = []
    async for event in bash.call("bash.execute", command=command):
        events.append(event)
        if name := next(names, None):
            await run(bash, f"echo > {name}", timeout_secs=PATIENCE_SECONDS)
    *lines, end = events
    assert lines == [
        {"type": "stdout", "line": "out"},
        {"type": "stderr", "line": "err"},
        {"type": "stdout", "line": "no end", "partial": True},
    ]
    assert {**end, "handle": ""} == {"type": "exit", "code": 3, "handle": ""}
    handle = parse(end["handle"])
    assert (handle.plugin, handle.version, handle.method) == ("bash", "1.0.0", "execute")
    assert handle.meta[1:] == ("3",)
    data = await data_of(bash, end)
    assert data["execution_id"] == handle.meta[0]
    assert (data["stdout"], data["stderr"], data["exit_code"]) == ("out\nno end", "err\n", 3)
    assert (data["command"], data["truncated"], data["status"]) == (command, False, "complete")
    assert data["duration_ms"] >= 0


async def test_a_line_is_sent_while_the_command_runs(bash: InProcessHub) -> None:
    async with aclosing(bash.call("bash.execute", command="echo first; tail -f /dev/null")) as call:
        assert await anext(call) == {"type": "stdout", "line": "first"}
        [row] = await listed(bash)
        assert (row["status"], row["exit_code"], row["duration_ms"]) == ("running", None, None)


async def test_a_command_has_the_callers_directory_and_environment(
    bash: InProcessHub, tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    text = 'pwd; echo "$GREETING $NAME"; env | grep -c HUBD_TOKEN'
    [where, greeting, secrets, _] = await run(
        bash, text, cwd="below", env={"NAME": "Ann", "HUBD_TOKEN": "x"}
    )
    assert where["line"] == str(tmp_path / "below")
    assert greeting["line"] == "hello Ann"
    assert secrets["line"] == "0"


async def test_stdin_is_given_and_ends(bash: InProcessHub) -> None:
    text = "é\n" * 100_000
    [size, end] = await run(bash, "cat | wc -c", stdin=text)
    assert int(size["line"]) == len(text.encode())
    [end] = await run(bash, "cat")
    assert end["code"] == 0


async def test_another_shell_can_be_chosen(bash: InProcessHub) -> None:
    [line, _] = await run(bash, "echo $0", shell="sh")
    assert line["line"].endswith("sh")
    assert not line["line"].endswith("bash")


@pytest.mark.parametrize(("command", "code"), [("kill -9 $$", 137), ("exit 300", 44)])
async def test_exit_statuses_are_those_of_a_shell(
    bash: InProcessHub, command: str, code: int
) -> None:
    [end] = await run(bash, command)
    assert end["code"] == code


async def test_a_binary_stream_is_escaped_in_events_and_exact_in_the_record(
    bash: InProcessHub, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 3 + b"\\xff\n\nend"
    (tmp_path / "binary").write_bytes(data)
    *lines, end = await run(bash, "cat binary; cat binary >&2")
    assert any(line.get("escaped") for line in lines)
    record = await data_of(bash, end)
    assert record["stdout_encoding"] == record["stderr_encoding"] == "escaped"
    exact = await bash.call_one(
        "bash.get", execution_id=record["execution_id"][:8], encoding="base64"
    )
    assert exact["stdout_encoding"] == "base64"
    assert base64.b64decode(exact["stdout"]) == base64.b64decode(exact["stderr"]) == data


async def test_long_lines_are_sent_in_pieces(bash: InProcessHub) -> None:
    size = 3 * MAX_PIECE_BYTES + 5
    *pieces, end = await run(bash, f"head -c {size} /dev/zero | tr '\\0' x; echo; echo after")
    assert [piece.get("partial", False) for piece in pieces] == [True, True, True, False, False]
    assert "".join(piece["line"] for piece in pieces) == "x" * size + "after"
    assert (await data_of(bash, end))["stdout"] == "x" * size + "\nafter\n"


async def test_output_beyond_the_limit_is_cut_and_counted(tmp_path: Path) -> None:
    async with bash_hub(tmp_path, max_output_mib=0.5) as h:
        command = "head -c 3000000 /dev/zero | tr '\\0' x; echo last >&2; exit 4"
        items = [item async for item in h.items("bash.execute", command=command)]
        [advice] = [item for item in items if item["type"] == "guidance"]
        assert "more than 0.5 MiB" in advice["suggestion"]
        events = [item["content"] for item in items if item["type"] == "data"]
        data = await data_of(h, events[-1])
    kept = 512 * 1024
    texts = [event["line"] for event in events if event["type"] == "stdout"]
    assert sum(map(len, texts)) == len(data["stdout"]) == data["stdout_size"] == kept
    assert (data["stdout_dropped"], data["stderr_dropped"]) == (3_000_000 - kept, 0)
    # The command ran to its end, and the other output has its own limit.
    assert (data["stderr"], data["exit_code"], data["truncated"]) == ("last\n", 4, True)


async def test_a_large_output_is_read_in_pages(bash: InProcessHub) -> None:
    [*_, end] = await run(bash, "seq -f %01000g 1 300")
    whole = (await data_of(bash, end))["stdout"]
    assert whole == "".join(f"{number:01000}\n" for number in range(1, 301))
    pages, offset = "", 0
    while offset < len(whole):
        page = await bash.call_one(
            "bash.get", execution_id=end["handle"].split(":")[3], offset=offset, max_bytes=70_000
        )
        assert page["truncated"]
        pages += page["stdout"]
        offset += len(page["stdout"])
    assert pages == whole


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"command": "a\0b"}, "command has a NUL"),
        ({"command": "true", "env": {"A=B": "x"}}, "can't be a variable"),
        ({"command": "true", "env": {"A": "x\0"}}, "can't be a variable"),
        ({"command": "true", "cwd": "missing"}, "is not a directory"),
        ({"command": ""}, "command"),
        ({"command": "true", "timeout_secs": 0}, "timeout_secs"),
    ],
)
async def test_params_that_no_system_takes_are_refused(
    bash: InProcessHub, params: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidParams, match=words):
        await bash.call_one("bash.execute", **params)
    assert await listed(bash) == []


async def test_a_missing_shell_is_unavailable_and_leaves_no_record(bash: InProcessHub) -> None:
    with pytest.raises(Unavailable, match="there is no program nosuchshell"):
        await bash.call_one("bash.execute", command="true", shell="nosuchshell")
    with pytest.raises(Unavailable, match="cannot be started"):
        await bash.call_one("bash.execute", command="é" * 70_000)
    assert await listed(bash) == []


async def test_an_agent_needs_a_grant(bash: InProcessHub) -> None:
    stranger = bash.calling(actor=Actor("session", "one", ()))
    with pytest.raises(PermissionDenied, match=r"may not call bash\.execute"):
        await run(stranger, "true")
    granted = bash.calling(actor=Actor("session", "two", ("bash.execute",)))
    [end] = await run(granted, "exit 5")
    assert end["code"] == 5
    with pytest.raises(PermissionDenied):
        await listed(granted)


async def test_many_commands_wait_for_a_place(tmp_path: Path) -> None:
    async with bash_hub(tmp_path, max_running=2) as h:
        results = await asyncio.gather(*(run(h, f"exit {number}") for number in range(6)))
        assert [end["code"] for [end] in results] == list(range(6))
