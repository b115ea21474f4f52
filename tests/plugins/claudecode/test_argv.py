"""Options as a command line, against the rules and against the real program."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import InvalidParams
from hubd.plugins.claudecode.argv import (
    MAX_ARGUMENT_BYTES,
    STREAM_JSON,
    ChatOptions,
    command_line,
)

# A turn takes less than a second; the machine may be busy.
PATIENCE_SECONDS = 60.0

PLAIN = ["claude", *STREAM_JSON]


def real_claude() -> str:
    spec = find_spec("claude_agent_sdk")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(spec.submodule_search_locations[0], "_bundled", "claude"))


def claude_environment(directory: Path, port: int) -> dict[str, str]:
    """Nothing of this machine's own settings, and nobody to talk to but the loopback port."""
    (directory / "tmp").mkdir(exist_ok=True)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(directory),
        "CLAUDE_CONFIG_DIR": str(directory / ".claude"),
        "TMPDIR": str(directory / "tmp"),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


class LoopbackApi(ThreadingHTTPServer):
    """Answers every request with 400, and keeps what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), LoopbackHandler)
        self.requests: list[dict[str, Any]] = []

    def answer(self, request: Mapping[str, Any]) -> tuple[int, str, bytes]:
        error = {"type": "invalid_request_error", "message": "nothing is answered here"}
        return 400, "application/json", json.dumps({"type": "error", "error": error}).encode()


class TalkingApi(LoopbackApi):
    """Answers "well"; if it is given a command, it first has it run by the Bash tool."""

    def __init__(self, command: str | None = None) -> None:
        super().__init__()
        self._command = command

    def answer(self, request: Mapping[str, Any]) -> tuple[int, str, bytes]:
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "well"}
        reason = "end_turn"
        if self._command is not None and "tool_result" not in json.dumps(request["messages"]):
            block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
            tool_input = {"command": self._command, "description": "as told"}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(tool_input)}
            reason = "tool_use"
        message = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        end = {"stop_reason": reason, "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return 200, "text/event-stream", text.encode()


class LoopbackHandler(BaseHTTPRequestHandler):
    server: LoopbackApi

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        status, kind, body = self.server.answer(request)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def serving(api: LoopbackApi) -> Iterator[None]:
    """Answer from a thread for as long as the block runs."""
    # Asked often whether it shall stop: the end of a test waits for it.
    thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        api.shutdown()
        thread.join()
        api.server_close()


def run_claude(
    options: ChatOptions, directory: Path, api: LoopbackApi, prompt: str = "hello"
) -> tuple[list[dict[str, Any]], str]:
    """One turn of the real program: its lines and its stderr."""
    message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
    result = subprocess.run(
        command_line([real_claude()], options),
        input=json.dumps({"type": "user", "message": message}).encode() + b"\n",
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        cwd=directory,
        env=claude_environment(directory, api.server_port),
        check=False,
    )
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr.decode()


def init_of(lines: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next(line for line in lines if line.get("subtype") == "init")


def test_without_options_it_is_stream_json_on_both_pipes_and_nothing_else() -> None:
    assert command_line(["claude"], ChatOptions()) == [
        "claude",
        "--print",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
    ]


def test_a_program_keeps_its_own_arguments_in_front() -> None:
    assert command_line(["python", "-m", "agent"], ChatOptions())[:4] == [
        "python",
        "-m",
        "agent",
        "--print",
    ]


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (ChatOptions(model="opus"), ["--model=opus"]),
        (ChatOptions(model="-x"), ["--model=-x"]),
        (ChatOptions(system_prompt="be brief"), ["--append-system-prompt=be brief"]),
        (ChatOptions(system_prompt=""), ["--append-system-prompt="]),
        (
            ChatOptions(system_prompt="be brief", replace_system_prompt=True),
            ["--system-prompt=be brief"],
        ),
        (ChatOptions(system_prompt=Path("/a/b")), ["--append-system-prompt-file=/a/b"]),
        (
            ChatOptions(system_prompt=Path("/a/b"), replace_system_prompt=True),
            ["--system-prompt-file=/a/b"],
        ),
        (
            ChatOptions(allowed_tools=["Bash(git log, x)", "Edit"], disallowed_tools=["Write"]),
            ["--allowedTools=Bash(git log, x)", "--allowedTools=Edit", "--disallowedTools=Write"],
        ),
        (ChatOptions(permission_mode="plan"), ["--permission-mode=plan"]),
        (ChatOptions(permission_prompt_tool="stdio"), ["--permission-prompt-tool=stdio"]),
        (
            ChatOptions(mcp_config=Path("/m.json"), strict_mcp_config=True),
            ["--mcp-config=/m.json", "--strict-mcp-config"],
        ),
        (ChatOptions(settings=Path("/s.json")), ["--settings=/s.json"]),
        (ChatOptions(resume="abc"), ["--resume=abc"]),
        (
            ChatOptions(resume="a", fork_session=True, resume_session_at="b", session_id="c"),
            ["--resume=a", "--resume-session-at=b", "--session-id=c", "--fork-session"],
        ),
        (ChatOptions(session_id="abc"), ["--session-id=abc"]),
        (ChatOptions(max_turns=3), ["--max-turns=3"]),
    ],
)
def test_each_option_becomes_its_flag(options: ChatOptions, flags: list[str]) -> None:
    assert command_line(["claude"], options) == [*PLAIN, *flags]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(
    texts=st.lists(texts, min_size=5, max_size=5),
    rules=st.lists(texts),
)
def test_no_text_can_become_a_flag_or_an_argument_of_its_own(
    texts: list[str], rules: list[str]
) -> None:
    model, prompt, mode, tool, session = texts
    options = ChatOptions(
        model=model,
        system_prompt=prompt,
        permission_mode=mode,
        permission_prompt_tool=tool,
        resume=session,
        allowed_tools=rules,
        disallowed_tools=rules,
    )
    arguments = command_line(["claude"], options)[len(PLAIN) :]
    assert len(arguments) == 5 + 2 * len(rules)
    assert {argument.partition("=")[0] for argument in arguments} <= {
        "--model",
        "--append-system-prompt",
        "--permission-mode",
        "--permission-prompt-tool",
        "--resume",
        "--allowedTools",
        "--disallowedTools",
    }
    values = [argument.partition("=")[2] for argument in arguments]
    assert sorted(values) == sorted([*texts, *rules, *rules])


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (ChatOptions(fork_session=True), "resume"),
        (ChatOptions(resume="a", resume_session_at="b"), "fork_session"),
        (ChatOptions(resume="a", session_id="c"), "fork_session"),
    ],
)
def test_session_options_that_claude_would_refuse_or_ignore_are_refused(
    options: ChatOptions, missing: str
) -> None:
    with pytest.raises(InvalidParams, match=missing):
        command_line(["claude"], options)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\0b", "the value of --append-system-prompt contains a zero character"),
        ("\ud800", "the value of --append-system-prompt is not valid Unicode"),
        ("x" * MAX_ARGUMENT_BYTES, "the value of --append-system-prompt is too long"),
    ],
)
def test_a_text_that_cannot_be_an_argument_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(InvalidParams, match=reason):
        command_line(["claude"], ChatOptions(system_prompt=text))


def test_the_longest_argument_that_is_let_through_is_one_the_system_takes() -> None:
    flag = "--append-system-prompt="
    longest = ChatOptions(system_prompt="x" * (MAX_ARGUMENT_BYTES - len(flag)))
    subprocess.run(command_line(["true"], longest), check=True)
    with pytest.raises(OSError, match="too long"):
        subprocess.run([*command_line(["true"], longest), "x" * (MAX_ARGUMENT_BYTES + 1)])


def test_the_real_program_accepts_every_flag_of_a_new_session(tmp_path: Path) -> None:
    mcp_config = tmp_path / "mcp.json"
    mcp_config.write_text('{"mcpServers": {}}')
    settings = tmp_path / "settings.json"
    settings.write_text('{"permissions": {"ask": ["Bash"]}}')
    session = str(uuid4())
    options = ChatOptions(
        model="-model",
        system_prompt="-prompt\nof two lines",
        allowed_tools=["Edit", "Bash(git log, -x)"],
        disallowed_tools=["WebFetch", "NotebookEdit"],
        permission_mode="plan",
        permission_prompt_tool="stdio",
        mcp_config=mcp_config,
        strict_mcp_config=True,
        settings=settings,
        session_id=session,
        max_turns=3,
    )
    with serving(api := LoopbackApi()):
        lines, stderr = run_claude(options, tmp_path, api)
    init = init_of(lines)
    assert (init["session_id"], init["model"]) == (session, "-model")
    assert init["permissionMode"] == "plan"
    # Denied without conditions, so the model does not get to see them.
    assert {"WebFetch", "NotebookEdit"} & set(init["tools"]) == set()
    [result] = [line for line in lines if line["type"] == "result"]
    assert (result["is_error"], result["api_error_status"]) == (True, 400)
    assert "error: " not in stderr.lower()
    # It comes after the program's own.
    own, added, rest = api.requests[0]["system"][-1]["text"].partition("-prompt\nof two lines")
    assert (own != "", added != "", rest) == (True, True, "")
    assert "hello" in json.dumps(api.requests[0]["messages"])


def test_the_real_program_reads_a_system_prompt_from_a_file_and_replaces_its_own(
    tmp_path: Path,
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("-all there is")
    with serving(api := LoopbackApi()):
        options = ChatOptions(system_prompt=prompt, replace_system_prompt=True)
        run_claude(options, tmp_path, api)
    assert api.requests[0]["system"][-1]["text"] == "-all there is"


def test_the_real_program_runs_a_tool_that_the_rules_allow(tmp_path: Path) -> None:
    rules = ["Edit", "Bash(touch 'a, b')"]
    with serving(api := TalkingApi("touch 'a, b'")):
        run_claude(ChatOptions(allowed_tools=rules), tmp_path, api)
    assert (tmp_path / "a, b").exists()


def test_the_real_program_resumes_and_branches_at_a_message(tmp_path: Path) -> None:
    first, fork = str(uuid4()), str(uuid4())

    def known(api: LoopbackApi) -> list[str]:
        """Which of the prompts the newest request to the API contains."""
        messages = json.dumps(api.requests[-1]["messages"])
        return [word for word in ("alpha", "beta", "gamma") if word in messages]

    with serving(api := TalkingApi()):
        begun, _ = run_claude(ChatOptions(session_id=first), tmp_path, api, "alpha")
        assert known(api) == ["alpha"]
        resumed, _ = run_claude(ChatOptions(resume=first), tmp_path, api, "beta")
        assert init_of(resumed)["session_id"] == first
        assert known(api) == ["alpha", "beta"]
        [answer] = [line["uuid"] for line in begun if line["type"] == "assistant"]
        options = ChatOptions(
            resume=first, fork_session=True, resume_session_at=answer, session_id=fork
        )
        forked, _ = run_claude(options, tmp_path, api, "gamma")
        assert init_of(forked)["session_id"] == fork
        assert known(api) == ["alpha", "gamma"]
