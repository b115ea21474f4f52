"""Check that the installed `claude` carries out a pending call that a marker names.

The check runs the program once, with a home of its own and a Messages API on 127.0.0.1 that gives
one scripted answer. It needs no account. The call is denied, so no command runs.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from uuid import uuid4

from hubd.plugins.claudecode.native.conversations import NativeMessage
from hubd.plugins.claudecode.native.files import session_file
from hubd.plugins.claudecode.native.pending_call import inspect, write_marker
from hubd.plugins.claudecode.native.writing import write_session

# Seconds for the whole check; it usually takes less than one.
TIMEOUT: Final = 30.0
# Seconds between SIGTERM and SIGKILL.
GRACE: Final = 2.0
# Bytes of a line of the program, or of a request: its prompts and tools are about 100 KB.
LONGEST: Final = 8 * 1024 * 1024

TOOL_USE_ID: Final = "toolu_hubd_marker_check"
DENIAL: Final = "denied by the marker check"

_FLAGS: Final = (
    "--print",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--permission-prompt-tool=stdio",
    "--permission-mode=default",
    "--strict-mcp-config",
)


class MarkerSupport(NamedTuple):
    """The result of the check.

    Attributes:
        works: Whether the program asked for the call and gave its result to the model.
        version: The version that the program reported; empty if it did not get that far.
        reason: Why it does not work, in words; empty if it does.
    """

    works: bool
    version: str
    reason: str


async def check_marker(
    program: Path, *, path: str | None = None, timeout_seconds: float = TIMEOUT
) -> MarkerSupport:
    """Run the program once and report whether it follows a marker. No file or process remains.

    Args:
        program: The `claude` program.
        path: The PATH of the program; by default that of this process.
        timeout_seconds: The maximum duration.
    """
    check = _Check(path or os.environ.get("PATH", os.defpath))
    try:
        async with asyncio.timeout(timeout_seconds):
            return await check.run(program)
    except TimeoutError:
        reason = f"{program} did not finish the check within {timeout_seconds:g} s"
    except OSError as problem:
        # The text names the missing file, which may be another one than the program.
        reason = f"{program} cannot be run: {problem}"
    return MarkerSupport(False, check.version, reason)


class _Check:
    def __init__(self, path: str) -> None:
        self._path = path
        # From the program's first line.
        self.version = ""
        # The messages of each request to the model.
        self._conversations: list[list[dict[str, Any]]] = []

    async def run(self, program: Path) -> MarkerSupport:
        with TemporaryDirectory(prefix="hubd-marker-check-", ignore_cleanup_errors=True) as name:
            directory = Path(name)
            async with self._api() as url:
                environ = _environment(directory, url, self._path)
                session_id = _write_session(directory, environ)
                command = (str(program), *_FLAGS, f"--resume={session_id}")
                async with _process(command, directory, environ) as process:
                    reason = await self._talk(process)
        return MarkerSupport(not reason, self.version, reason)

    async def _talk(self, process: asyncio.subprocess.Process) -> str:
        """Answer the program's question. Return the reason of a failure, or an empty text."""
        assert process.stdin is not None
        assert process.stdout is not None
        asked = False
        while raw := await process.stdout.readline():
            try:
                line = json.loads(raw)
                kind = line["type"]
            except (ValueError, KeyError, TypeError):
                return "the program printed a line that is not a message"
            if kind == "system" and line.get("subtype") == "init":
                self.version = str(line.get("claude_code_version", ""))
            elif kind == "control_request":
                if line.get("request", {}).get("tool_use_id") != TOOL_USE_ID:
                    return "the program asked for another call"
                asked = True
                process.stdin.write(_answer(line["request_id"]))
                await process.stdin.drain()
            elif kind == "result":
                return self._verdict(asked)
        if not asked:
            return "the program ended without asking for the call"
        return "the program ended without a result"

    def _verdict(self, asked: bool) -> str:
        if not asked:
            return "the program continued without asking for the call"
        results = [
            block
            for message in (self._conversations or [[]])[-1]
            if isinstance(message.get("content"), list)
            for block in message["content"]
            if isinstance(block, dict) and block.get("tool_use_id") == TOOL_USE_ID
        ]
        if len(results) != 1 or DENIAL not in str(results[0].get("content")):
            return "the program did not give the result of the call to the model"
        return ""

    @asynccontextmanager
    async def _api(self) -> AsyncIterator[str]:
        """Serve a Messages API on a free port of 127.0.0.1."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LONGEST)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
            body = await reader.readexactly(min(LONGEST, int(headers.get("content-length", 0))))
            writer.write(self._reply(head[0], json.loads(body) if body else {}))
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # The program closed the connection, or did not send a request of this API.
            pass
        finally:
            writer.close()

    def _reply(self, request_line: str, body: dict[str, Any]) -> bytes:
        if request_line.startswith("POST /v1/messages?") and "messages" in body:
            self._conversations.append(body["messages"])
            if body.get("stream"):
                return _response("text/event-stream", _events(str(body.get("model"))))
        # Requests of other versions, which need no answer.
        return _response("application/json", b'{"input_tokens":1}')


def _environment(directory: Path, url: str, path: str) -> dict[str, str]:
    for name in ("home", "config", "tmp", "work"):
        (directory / name).mkdir()
    return {
        "PATH": path,
        "HOME": str(directory / "home"),
        "CLAUDE_CONFIG_DIR": str(directory / "config"),
        "TMPDIR": str(directory / "tmp"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _write_session(directory: Path, environ: Mapping[str, str]) -> str:
    """Write a session that ends in an open call with a marker. Return its id."""
    session_id = str(uuid4())
    cwd = directory / "work"
    file = session_file(environ, cwd, session_id)
    # A command that `claude` asks for, because it changes a file.
    given = {"command": "touch checked", "description": "Check"}
    call = {"type": "tool_use", "id": TOOL_USE_ID, "name": "Bash", "input": given}
    messages = [
        NativeMessage(role="user", content=[{"type": "text", "text": "check"}]),
        NativeMessage(role="assistant", content=[call]),
    ]
    frame: dict[str, Any] = {"session_id": session_id, "cwd": cwd, "version": "2.1.325"}
    write_session(file, messages=messages, now=datetime.now(UTC), **frame)
    [open_call] = inspect(file, TOOL_USE_ID).open_calls
    write_marker(file, open_call, permission_mode="default", **frame)
    return session_id


@asynccontextmanager
async def _process(
    command: tuple[str, ...], directory: Path, environ: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the program in a process group, and end the group afterwards."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory / "work",
        env=dict(environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LONGEST,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await asyncio.shield(_end(process))


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal_number)
        with suppress(TimeoutError):
            # Reads the output too, which closes the pipes.
            await asyncio.wait_for(process.communicate(), GRACE)


def _answer(request_id: str) -> bytes:
    denial = {"behavior": "deny", "message": DENIAL}
    response = {"subtype": "success", "request_id": request_id, "response": denial}
    return json.dumps({"type": "control_response", "response": response}).encode() + b"\n"


def _events(model: str) -> bytes:
    """Return a streamed message with one short text."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_hubd_marker_check",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    delta = {"type": "text_delta", "text": "ok"}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    block = {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]
    parts = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join(parts).encode()


def _response(content_type: str, body: bytes) -> bytes:
    head = f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\nconnection: close"
    return f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + body
