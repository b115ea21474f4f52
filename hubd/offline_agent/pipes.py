"""Standard input, standard output and signals: the one place where the offline agent waits.

One thread, one `select`. Everything that takes time (a pause, a running tool, a question) goes
through `Pipes.wait`, so that an interrupt is heard wherever the agent is.
"""

import json
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NoReturn

from hubd.offline_agent.lines import Line

READ_BYTES: Final = 65536

# A killed tool is gone at once. Only what has left its group on purpose keeps its output open.
END_SECONDS: Final = 1.0
# More than a pipe can hold: whoever says more than that is not gone.
LONGEST_END: Final = 2 * 1024 * 1024

# Exit status of a program that SIGTERM ended, as the shell counts.
TERMINATED: Final = 143


class Interrupted(Exception):
    """The turn that runs has to end now."""


class Leave(Exception):
    """The program has to end now, with this status and without a result."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status


class Pipes:
    """The lines in and out, and who has to be ended when the agent is."""

    def __init__(self, output_format: str, reads_input: bool) -> None:
        self._output_format = output_format
        # Becomes false at the end of the input.
        self.open = reads_input
        # What came of a line that is not complete yet.
        self._partial = b""
        # Messages of the user that no turn has taken yet.
        self.prompts: deque[Line] = deque()
        # Answers to our questions, by request id, until they are taken.
        self.answers: dict[str, Line] = {}
        # The question that waits for an answer, if any; an interrupt withdraws it.
        self.question: str | None = None
        # True while a turn runs; only then an interrupt means something.
        self.in_turn = False
        # Set by an interrupt, taken by the next `wait`.
        self._interrupt = False
        # Set by SIGINT: the turn ends, and the program after it.
        self.leaving = False
        # The process groups of the tools that run, each with the end of its output.
        self._tools: dict[int, int] = {}
        # While a tool is being started SIGTERM waits: its group is not known yet.
        self._starting = False
        self._terminate = False
        # Who answers the control requests that are not interrupts: (fields, error).
        self.control: Callable[[Line], tuple[Line, str | None]] = lambda _: ({}, "not ready")
        # A signal writes a byte here, so that `select` returns.
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._on_sigint)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # Only so that the end of a tool wakes `select`: an ignored signal would not.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def emit(self, line: Line) -> None:
        """Write one line, now; in the text and json formats only a result is written."""
        if self._output_format != "stream-json" and line["type"] != "result":
            return
        if self._output_format == "text":
            said = line.get("result") or "\n".join(line.get("errors", ()))
            self.write(said.encode(errors="replace"))
        else:
            self.write(_encode(line))

    def write(self, raw: bytes) -> None:
        """Write a raw line. When nobody reads any more, the program ends."""
        raw += b"\n"
        try:
            while raw:
                raw = raw[os.write(1, raw) :]
        except BrokenPipeError:
            self._leave(1)

    def poll(self) -> None:
        """Take in what has arrived, without waiting."""
        self.wait(0.0)

    def pause(self, seconds: float) -> None:
        """Let time pass, and take in what arrives meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.wait(left)

    def wait(self, seconds: float | None, descriptors: Iterable[int] = ()) -> set[int]:
        """Wait for anything at all to happen, at most this long.

        Args:
            seconds: The longest wait; None for as long as it takes.
            descriptors: Files that end the wait too when they can be read.

        Returns:
            Which of the descriptors can be read.

        Raises:
            Interrupted: An interrupt came for the turn that runs.
        """
        watched = {self._woken, *descriptors}
        if self.open:
            watched.add(0)
        ready = set(select.select(watched, (), (), 0.0 if self._pending() else seconds)[0])
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, READ_BYTES)
        if 0 in ready and self.open:
            self._read()
        if self._pending():
            self._interrupt = False
            raise Interrupted
        return ready & set(descriptors)

    def _pending(self) -> bool:
        return self.in_turn and self._interrupt

    def _read(self) -> None:
        raw = os.read(0, READ_BYTES)
        self.open = bool(raw)
        *lines, self._partial = (self._partial + raw).split(b"\n")
        if not raw and self._partial:
            lines.append(self._partial)
        for line in lines:
            if line.strip():
                self._take(line)

    def _take(self, raw: bytes) -> None:
        try:
            line = json.loads(raw)
            kind = line["type"]
            if kind == "user":
                self._take_prompt(line)
            elif kind == "control_request":
                self._take_request(line["request_id"], line["request"])
            elif kind == "control_response":
                response = line["response"]
                self.answers[response["request_id"]] = response
        except (ValueError, KeyError, TypeError) as problem:
            name = type(problem).__name__
            raise Leave(
                1, f"Error parsing streaming input line ({len(raw)} chars): {name}"
            ) from None

    def _take_prompt(self, line: Line) -> None:
        line["message"]["content"]  # a message without content is an error here, not later
        self.prompts.append(line)
        if "uuid" in line:
            self.emit(lifecycle(line, "queued"))

    def _take_request(self, request_id: str, request: Line) -> None:
        if request["subtype"] == "interrupt":
            if self.question is not None:
                self.emit({"type": "control_cancel_request", "request_id": self.question})
            self._interrupt = self.in_turn
            queued = [line["uuid"] for line in self.prompts if "uuid" in line]
            fields, error = {"still_queued": queued}, None
        else:
            fields, error = self.control(request)
        answer: Line = {"subtype": "error" if error else "success", "request_id": request_id}
        answer |= {"error": error} if error else {"response": fields}
        self.emit({"type": "control_response", "response": answer})

    def _on_sigint(self, *_: object) -> None:
        self.leaving = True
        self._interrupt = True

    def _on_sigterm(self, *_: object) -> None:
        self._terminate = True
        if not self._starting:
            self._leave(TERMINATED)

    def _leave(self, status: int) -> NoReturn:
        self.end_tools()
        os._exit(status)

    def start_tool(self, start: Callable[[], tuple[int, int]]) -> None:
        """Start a process that leads a group of its own.

        Args:
            start: Starts it, and returns its id and the descriptor that its output comes from.
        """
        self._starting = True
        try:
            group, output = start()
            self._tools[group] = output
        finally:
            self._starting = False
            if self._terminate:
                self._leave(TERMINATED)

    def end_tool(self, group: int) -> bytes:
        """End a process and all that is in its group; returns what they still had said.

        The end of the output tells that they are gone: nobody is left who could write.
        """
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        return _read_to_end(self._tools.pop(group))

    def end_tools(self) -> None:
        """End every tool that runs."""
        for group in list(self._tools):
            self.end_tool(group)


def lifecycle(prompt: Line, state: str) -> Line:
    """What became of a message that came with an id of its own."""
    return {"type": "command_lifecycle", "command_uuid": prompt["uuid"], "state": state}


def note(text: str) -> None:
    """Say something on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _read_to_end(descriptor: int) -> bytes:
    said = b""
    end = time.monotonic() + END_SECONDS
    while (left := end - time.monotonic()) > 0 and len(said) < LONGEST_END:
        if select.select([descriptor], (), (), left)[0]:
            piece = os.read(descriptor, READ_BYTES)
            if not piece:
                break
            said += piece
    return said


def _encode(line: Line) -> bytes:
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half a surrogate pair can come in as an escape, and can go out only as one.
        return json.dumps(line, separators=(",", ":")).encode()
