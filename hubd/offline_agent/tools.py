"""The tools of the offline agent, which really do what they say; and what they tell about it."""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from hubd.offline_agent.directives import Call
from hubd.offline_agent.lines import Line
from hubd.offline_agent.pipes import READ_BYTES, Pipes

# The default time limit of claude's Bash tool; BASH_DEFAULT_TIMEOUT_MS changes it, as there.
BASH_SECONDS: Final = 120.0

# More than this of a command's output is dropped: it is all kept in memory.
MOST_OUTPUT: Final = 1_000_000

CURRENT: Final = "(file state is current in your context — no need to Read it back)"


class Outcome(NamedTuple):
    """What a tool gave: for the model, and in more detail for the program around it."""

    content: str | list[Line]
    is_error: bool
    detail: Line | str

    @property
    def text(self) -> str:
        """The words of it."""
        if isinstance(self.content, str):
            return self.content
        return " ".join(block["text"] for block in self.content)

    @staticmethod
    def failed(text: str) -> "Outcome":
        """The tool did not work."""
        return Outcome(text, True, f"Error: {text}")

    def block(self, tool_use_id: str, tool: str) -> Line:
        """The tool_result block, with claude's habits: only some tools say that all went well."""
        if self.is_error:
            rest = {"content": self.content, "is_error": True, "tool_use_id": tool_use_id}
            return {"type": "tool_result", **rest}
        said = {"is_error": False} if tool == "Bash" else {}
        block = {"tool_use_id": tool_use_id, "type": "tool_result", "content": self.content}
        return {**block, **said}


class RunningCommand:
    """A command that runs in a process group of its own, so that all of it can be ended."""

    def __init__(self, pipes: Pipes, command: str, cwd: Path) -> None:
        self._pipes = pipes
        # Grows while the command runs, up to a limit.
        self._output = b""
        # Becomes true when its group has been ended: the id may then belong to somebody else.
        self._stopped = False
        # Becomes true when everybody has closed the output.
        self.silent = False
        # Becomes true when output had to be dropped.
        self._dropped = False
        self._limit = float(os.environ.get("BASH_DEFAULT_TIMEOUT_MS", BASH_SECONDS * 1000)) / 1000
        self._deadline = time.monotonic() + self._limit
        pipes.start_tool(lambda: self._start(command, cwd))

    def _start(self, command: str, cwd: Path) -> tuple[int, int]:
        # Not needed by most turns, and it takes longer to import than the rest of this package.
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
        """Until the time limit; 0 when it has passed."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself, or has to be ended because its time is over."""
        return self._process.poll() is not None or self.seconds_left == 0.0

    def read(self) -> None:
        """Take in what it has said since; there must be something, or the end of it."""
        piece = os.read(self.descriptor, READ_BYTES)
        self.silent = not piece
        self._keep(piece)

    def stop(self) -> None:
        """End it and all that it has started, also what it left in the background."""
        if self._stopped:
            return
        self._stopped = True
        self._keep(self._pipes.end_tool(self._process.pid))
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def finish(self) -> Outcome:
        """What it came to; if it still runs, its time is over."""
        overdue = self._process.poll() is None
        self.stop()
        text = self._output.decode(errors="replace").rstrip("\n")
        if self._dropped:
            text += f"\n… cut after {MOST_OUTPUT} bytes"
        if overdue:
            return Outcome.failed(f"Command timed out after {self._limit:g}s\n{text}".rstrip("\n"))
        # A negative status is a signal's number; a shell shows 128 more than that.
        status = self._process.returncode
        status = 128 - status if status < 0 else status
        if status:
            return Outcome.failed(f"Exit code {status}\n{text}".rstrip("\n"))
        detail: Line = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        content = text or "(Bash completed with no output)"
        return Outcome(content, False, {**detail, "noOutputExpected": False})


def run_commands(pipes: Pipes, commands: list[str], cwd: Path) -> list[Outcome]:
    """Run commands side by side to their ends; an interrupt ends them all.

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
            speaking = {each.descriptor: each for each in waiting if not each.silent}
            left = min(each.seconds_left for each in waiting)
            for descriptor in pipes.wait(left, speaking):
                speaking[descriptor].read()
        outcomes |= {index: each.finish() for index, each in running.items()}
        return [outcomes[index] for index in range(len(commands))]
    finally:
        for each in running.values():
            each.stop()


def run_at_once(call: Call, cwd: Path) -> Outcome:
    """Use a tool that takes no time: Write, Read or Big."""
    if call.tool == "Big":
        size = call.input["bytes"]
        return Outcome("0123456789abcdef" * (size // 16) + "x" * (size % 16), False, {"size": size})
    path = cwd / str(call.input.get("file_path", ""))
    try:
        if call.tool == "Write":
            return _write(path, str(call.input.get("content", "")))
        return _read(path, cwd)
    except (OSError, ValueError) as problem:
        return Outcome.failed(str(problem))


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
    """The whole file as one change, which is what writing it is."""
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
