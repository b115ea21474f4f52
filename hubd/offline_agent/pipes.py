"""Standard input, standard output and signals: the only place where the offline agent waits.

One thread, one `select`. Pauses, running tools and questions all wait in `Pipes.wait`, so that an
interrupt always takes effect.
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

from hubd.offline_agent.lines import Line, lifecycle

READ_BYTES: Final = 65536

# Time to read the rest of a killed tool's output. A process outside its group may keep it open.
END_SECONDS: Final = 1.0
# Bytes; more than a pipe holds, so a process that writes more still runs.
MOST_REST: Final = 2 * 1024 * 1024

# The exit status after SIGTERM, as in a shell.
TERMINATED: Final = 143


class Interrupted(Exception):
    """The running turn must end now."""


class Exit(Exception):
    """The program must end now, with this status and without a result."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status


class Pipes:
    """The input and output lines, and the tools that end with the agent."""

    def __init__(self, output_format: str, reads_input: bool) -> None:
        self._output_format = output_format
        # The session, for the lines about prompts.
        self.session_id = ""
        # Whether the input is open.
        self.open = reads_input
        # The start of an incomplete line.
        self._partial = b""
        # Messages of the user for the next turns.
        self.prompts: deque[Line] = deque()
        # Answers to questions, by request id.
        self.answers: dict[str, Line] = {}
        # The id of the open question; an interrupt withdraws it.
        self.question: str | None = None
        # Whether a turn runs. Otherwise an interrupt has no effect.
        self.in_turn = False
        # Set by an interrupt, reset by the next `wait`.
        self._interrupt = False
        # Set by SIGINT: the turn ends, then the program.
        self.leaving = False
        # The process groups of running tools, with the descriptors of their output.
        self._tools: dict[int, int] = {}
        # While a tool starts, SIGTERM is delayed, because the group is unknown.
        self._starting = False
        self._terminate = False
        # Answers other control requests with fields or an error.
        self.control: Callable[[Line], tuple[Line, str | None]] = lambda _: ({}, "not ready")
        # A signal writes a byte to this pipe, so that `select` returns.
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._on_sigint)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # A handler, because an ignored SIGCHLD would not wake `select`.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def emit(self, line: Line) -> None:
        """Write one line. In the text and json formats, only a result is written."""
        if self._output_format != "stream-json" and line["type"] != "result":
            return
        if self._output_format == "text":
            text = line.get("result") or "\n".join(line.get("errors", ()))
            self.write(text.encode(errors="replace"))
        else:
            self.write(_encode(line))

    def write(self, raw: bytes) -> None:
        """Write a raw line. Exit if the output is closed."""
        raw += b"\n"
        try:
            while raw:
                raw = raw[os.write(1, raw) :]
        except BrokenPipeError:
            self._exit(1)

    def poll(self) -> None:
        """Read the available input without waiting."""
        self.wait(0.0)

    def pause(self, seconds: float) -> None:
        """Wait for this time, and read input meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.wait(left)

    def wait(self, seconds: float | None, descriptors: Iterable[int] = ()) -> set[int]:
        """Wait until input, a signal or a descriptor is ready.

        Args:
            seconds: The maximum time; None for no limit.
            descriptors: More descriptors to wait for.

        Returns:
            The descriptors that are ready.

        Raises:
            Interrupted: The running turn was interrupted.
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
            raise Exit(
                1, f"Error parsing streaming input line ({len(raw)} chars): {name}"
            ) from None

    def _take_prompt(self, line: Line) -> None:
        line["message"]["content"]  # Fails here if the message has no content.
        self.prompts.append(line)
        if "uuid" in line:
            self.emit(lifecycle(self.session_id, line["uuid"], "queued"))

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
            self._exit(TERMINATED)

    def _exit(self, status: int) -> NoReturn:
        self.end_tools()
        os._exit(status)

    def start_tool(self, start: Callable[[], tuple[int, int]]) -> None:
        """Start a process in a new process group.

        Args:
            start: Starts the process; returns its id and the descriptor of its output.
        """
        self._starting = True
        try:
            group, output = start()
            self._tools[group] = output
        finally:
            self._starting = False
            if self._terminate:
                self._exit(TERMINATED)

    def end_tool(self, group: int) -> bytes:
        """Kill a process group. Return the rest of its output.

        The output ends when the last process of the group has ended.
        """
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        return _read_to_end(self._tools.pop(group))

    def end_tools(self) -> None:
        """End all running tools."""
        for group in list(self._tools):
            self.end_tool(group)


def note(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _read_to_end(descriptor: int) -> bytes:
    output = b""
    end = time.monotonic() + END_SECONDS
    while (left := end - time.monotonic()) > 0 and len(output) < MOST_REST:
        if select.select([descriptor], (), (), left)[0]:
            piece = os.read(descriptor, READ_BYTES)
            if not piece:
                break
            output += piece
    return output


def _encode(line: Line) -> bytes:
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A single surrogate can be written only as an escape.
        return json.dumps(line, separators=(",", ":")).encode()
