"""The tools of the offline agent, and their results."""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import INTERACTIVE, Line
from hubd.offline_agent.pipes import READ_BYTES, Pipes

# The default timeout of claude's Bash tool; BASH_DEFAULT_TIMEOUT_MS overrides it.
BASH_SECONDS: Final = 120.0

# Bytes of a command's output that are kept, in memory; the rest is dropped.
MOST_OUTPUT: Final = 1_000_000

CURRENT: Final = "(file state is current in your context — no need to Read it back)"


class Outcome(NamedTuple):
    """The result of a tool: content for the model, and details for clients."""

    content: str | list[Line]
    is_error: bool
    detail: Line | str

    @property
    def text(self) -> str:
        """The text of the content."""
        if isinstance(self.content, str):
            return self.content
        return " ".join(block["text"] for block in self.content)

    @staticmethod
    def failed(text: str) -> "Outcome":
        """Return the result of a failed tool."""
        return Outcome(text, True, f"Error: {text}")

    def block(self, tool_use_id: str, tool: str) -> Line:
        """Return the tool_result block. As in claude, only Bash has `is_error: false`."""
        if self.is_error:
            rest = {"content": self.content, "is_error": True, "tool_use_id": tool_use_id}
            return {"type": "tool_result", **rest}
        status = {"is_error": False} if tool == "Bash" else {}
        block = {"tool_use_id": tool_use_id, "type": "tool_result", "content": self.content}
        return {**block, **status}


class RunningCommand:
    """A command in a new process group, so that all its processes can be ended."""

    def __init__(self, pipes: Pipes, command: str, cwd: Path) -> None:
        self._pipes = pipes
        # The output so far, up to the limit.
        self._output = b""
        # Whether the group has ended; its id may then belong to another group.
        self._stopped = False
        # Whether the output is closed.
        self.silent = False
        # Whether output was dropped.
        self._dropped = False
        self._limit = float(os.environ.get("BASH_DEFAULT_TIMEOUT_MS", BASH_SECONDS * 1000)) / 1000
        self._deadline = time.monotonic() + self._limit
        pipes.start_tool(lambda: self._start(command, cwd))

    def _start(self, command: str, cwd: Path) -> tuple[int, int]:
        # Most turns don't need it, and it takes longer to import than this package.
        import subprocess

        self._process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.descriptor = self._process.stdout.fileno()
        return self._process.pid, self.descriptor

    def _keep(self, piece: bytes) -> None:
        room = MOST_OUTPUT - len(self._output)
        self._dropped |= len(piece) > room
        self._output += piece[:room]

    @property
    def seconds_left(self) -> float:
        """The seconds until the timeout; 0 after it."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended, or its timeout has passed."""
        return self._process.poll() is not None or self.seconds_left == 0.0

    def read(self) -> None:
        """Read output. The descriptor must be ready."""
        piece = os.read(self.descriptor, READ_BYTES)
        self.silent = not piece
        self._keep(piece)

    def stop(self) -> None:
        """End all processes of the command, including background processes."""
        if self._stopped:
            return
        self._stopped = True
        self._keep(self._pipes.end_tool(self._process.pid))
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def finish(self) -> Outcome:
        """Return the result. A command that still runs has timed out."""
        overdue = self._process.poll() is None
        self.stop()
        text = self._output.decode(errors="replace").rstrip("\n")
        if self._dropped:
            text += f"\n… cut after {MOST_OUTPUT} bytes"
        if overdue:
            return Outcome.failed(f"Command timed out after {self._limit:g}s\n{text}".rstrip("\n"))
        # A negative status is the number of a signal; a shell adds 128.
        status = self._process.returncode
        status = 128 - status if status < 0 else status
        if status:
            return Outcome.failed(f"Exit code {status}\n{text}".rstrip("\n"))
        detail: Line = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        content = text or "(Bash completed with no output)"
        return Outcome(content, False, {**detail, "noOutputExpected": False})


def run_commands(pipes: Pipes, commands: list[str], cwd: Path) -> list[Outcome]:
    """Run commands in parallel. An interrupt ends all of them.

    Raises:
        Interrupted: The turn was interrupted.
    """
    running: dict[int, RunningCommand] = {}
    outcomes: dict[int, Outcome] = {}
    try:
        for index, command in enumerate(commands):
            try:
                running[index] = RunningCommand(pipes, command, cwd)
            except (OSError, ValueError) as problem:
                outcomes[index] = Outcome.failed(f"The command could not be started: {problem}")
        while waiting := [each for each in running.values() if not each.has_ended]:
            readable = {each.descriptor: each for each in waiting if not each.silent}
            left = min(each.seconds_left for each in waiting)
            for descriptor in pipes.wait(left, readable):
                readable[descriptor].read()
        outcomes |= {index: each.finish() for index, each in running.items()}
        return [outcomes[index] for index in range(len(commands))]
    finally:
        for each in running.values():
            each.stop()


def run_at_once(call: Call, cwd: Path) -> Outcome:
    """Run a tool that needs no process: Write, Read, Big, or one that a person has answered."""
    if call.tool == "Big":
        size = call.input["bytes"]
        return Outcome("0123456789abcdef" * (size // 16) + "x" * (size % 16), False, {"size": size})
    if call.tool in INTERACTIVE:
        return _answered(call)
    path = cwd / str(call.input.get("file_path", ""))
    try:
        if call.tool == "Write":
            return _write(path, str(call.input.get("content", "")))
        return _read(path, cwd)
    except (OSError, ValueError) as problem:
        return Outcome.failed(str(problem))


def _answered(call: Call) -> Outcome:
    """Return the result of a tool whose approval is its answer."""
    if call.tool == "ExitPlanMode":
        detail = {"plan": call.input.get("plan"), "isAgent": False}
        text = "User has approved exiting plan mode. You can now proceed."
        return Outcome(text, False, detail)
    answers = call.input.get("answers")
    answers = answers if isinstance(answers, dict) else {}
    listed = ", ".join(f'"{question}"="{answer}"' for question, answer in answers.items())
    text = f"Your questions have been answered: {listed}."
    detail = {"questions": call.input.get("questions"), "answers": answers}
    return Outcome(f"{text} You can now continue with these answers in mind.", False, detail)


def _write(path: Path, content: str) -> Outcome:
    before = path.read_text(errors="replace") if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    detail = {
        "type": "create" if before is None else "update",
        "filePath": str(path),
        "content": content,
        "structuredPatch": [] if before is None else [_patch(before, content)],
        "originalFile": before,
        "userModified": False,
    }
    if before is None:
        return Outcome(f"File created successfully at: {path} {CURRENT}", False, detail)
    text = f"The file {path} has been updated successfully. {CURRENT}"
    return Outcome(text, False, detail)


def _patch(before: str, after: str) -> Line:
    """Return a patch that replaces the whole file."""
    old, new = before.splitlines(), after.splitlines()
    return {
        "oldStart": 1,
        "oldLines": len(old),
        "newStart": 1,
        "newLines": len(new),
        "lines": [*(f"-{line}" for line in old), *(f"+{line}" for line in new)],
    }


def _read(path: Path, cwd: Path) -> Outcome:
    if not path.exists():
        text = f"File does not exist. Note: your current working directory is {cwd}."
        return Outcome.failed(text)
    content = path.read_text(errors="replace")
    lines = content.split("\n")
    count = {"numLines": len(lines), "startLine": 1, "totalLines": len(lines)}
    file = {"filePath": str(path), "content": content, **count}
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
    return Outcome(numbered, False, {"type": "text", "file": file})
