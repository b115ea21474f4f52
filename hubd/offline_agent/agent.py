"""The offline agent, from its command line to its exit status."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hubd import __version__
from hubd.offline_agent import lines, result, session
from hubd.offline_agent.approval import Approver
from hubd.offline_agent.directives import help_text
from hubd.offline_agent.lines import Line, lifecycle
from hubd.offline_agent.options import Options, UsageError, is_uuid, parse
from hubd.offline_agent.permission import MODES, Permissions
from hubd.offline_agent.pipes import Exit, Pipes, note
from hubd.offline_agent.resuming import Deferred, resume_prompt
from hubd.offline_agent.turn import Turn

PROGRAM = "python -m hubd.offline_agent"


class Agent:
    """One run of the program."""

    def __init__(self, options: Options, pipes: Pipes, conversation: session.Session) -> None:
        self._options = options
        self._pipes = pipes
        self._session = conversation
        self._cwd = Path.cwd()
        self._permissions = Permissions(options)
        self._approver = Approver(pipes, self._permissions, options.permission_prompt_tool)
        pipes.control = self._control
        pipes.session_id = conversation.id
        # The number of results so far.
        self._results = 0
        # Whether the last turn failed, for the exit status.
        self._failed = False

    def run(self) -> int:
        """Run turns until the input ends or a signal arrives. Return the exit status."""
        if self._session.deferred is not None:
            self._resume(self._session.deferred)
        while prompts := self._next():
            self._turn(prompts)
        # A turn that SIGINT interrupted is not a failure of the program.
        return 1 if self._failed and not self._pipes.leaving else 0

    def _next(self) -> list[Line]:
        """Return the messages for the next turn, or none at the end of the input."""
        while self._pipes.open and not self._pipes.prompts and not self._pipes.leaving:
            self._pipes.wait(None)
        if self._pipes.leaving or not self._pipes.prompts:
            return []
        if self._results == 0:
            return [self._pipes.prompts.popleft()]
        # Messages that arrived during a turn are answered together, as claude does.
        prompts = list(self._pipes.prompts)
        self._pipes.prompts.clear()
        return prompts

    def _turn(self, prompts: list[Line]) -> None:
        tracked = [prompt["uuid"] for prompt in prompts if "uuid" in prompt]
        self._emit_states(tracked, "started")
        self._pipes.emit(self._init())
        self._emit_result(self._new_turn().run(prompts, self._results))
        self._emit_states(tracked, "completed")

    def _resume(self, deferred: Deferred) -> None:
        """Carry out a call of an earlier process, and continue its turn."""
        content = resume_prompt()
        prompt = lines.user(self._session.id, content)
        self._emit_states([prompt["uuid"]], "started")
        turn = self._new_turn()
        interrupted = turn.carry_out(deferred)
        self._pipes.emit(self._init())
        refusal = self._permissions.blocking_hook()
        if refusal is None:
            self._emit_result(turn.resume(prompt, self._results, interrupted=interrupted))
        else:
            reason = f"UserPromptSubmit operation blocked by hook:\n{refusal}"
            text = f"{reason}\n\nOriginal prompt: {content}"
            line = lines.blocked_prompt(self._session.id, text)
            self._session.append(line)
            self._pipes.emit(line)
            self._emit_result(turn.blocked(text, self._results))
        self._emit_states([prompt["uuid"]], "completed")

    def _new_turn(self) -> Turn:
        return Turn(self._pipes, self._session, self._approver, self._options, self._cwd)

    def _emit_result(self, line: Line) -> None:
        self._results += 1
        self._failed = line["is_error"]
        self._pipes.emit(line)

    def _emit_states(self, prompts: list[str], state: str) -> None:
        for uuid in prompts:
            self._pipes.emit(lifecycle(self._session.id, uuid, state))

    def _init(self) -> Line:
        # A person can only answer if questions reach one.
        interactive = lines.INTERACTIVE if self._options.permission_prompt_tool else ()
        offered = (*lines.TOOL_NAMES, *interactive)
        tools = [tool for tool in offered if not self._permissions.hides(tool)]
        return lines.init(self._session.id, str(self._cwd), self._permissions.mode, tools)

    def _control(self, request: Line) -> tuple[Line, str | None]:
        """Answer a control request. Return the fields of the answer, or an error."""
        subtype = request["subtype"]
        if subtype == "initialize":
            return {"commands": [], "models": [], "account": {}, "pid": os.getpid()}, None
        if subtype == "set_permission_mode" and request.get("mode") in MODES:
            self._permissions.mode = request["mode"]
            return {"mode": request["mode"]}, None
        if subtype == "set_model":
            return {"model": lines.MODEL}, None
        if subtype == "mcp_status":
            return {"mcpServers": []}, None
        return {}, f"Unsupported control request subtype: {subtype}"


def main(arguments: Sequence[str]) -> int:
    """Run the offline agent. Return its exit status."""
    try:
        options = parse(arguments)
        if options.help or options.version:
            text = help_text(PROGRAM) if options.help else f"{__version__} (hubd offline agent)\n"
            sys.stdout.write(text)
            return 0
        return _run(options)
    except UsageError as problem:
        note(str(problem))
        return 1


def _run(options: Options) -> int:
    for flag in options.unknown:
        note(f"offline agent: {flag} is not supported and is ignored")
    reads_input = options.input_format == "stream-json"
    pipes = Pipes(options.output_format, reads_input)
    try:
        conversation = _conversation(options)
        if not reads_input:
            pipes.prompts += _prompts(options, conversation)
        return Agent(options, pipes, conversation).run()
    except session.SessionError as problem:
        note(str(problem))
        if options.resume:
            session_id = options.resume if is_uuid(options.resume) else lines.new_id()
            pipes.emit(result.no_session(session_id, str(problem)))
        return 1
    except Exit as request:
        note(str(request))
        return request.status
    finally:
        pipes.end_tools()


def _conversation(options: Options) -> session.Session:
    cwd = Path.cwd()
    option = options.session_directory
    directory = Path(option) if option else session.default_directory()
    session_id = options.session_id or lines.new_id()
    if not options.resume:
        return session.new(directory, session_id, cwd)
    resumed = session.resume(directory, options.resume, cwd, options.resume_session_at)
    if not options.fork_session:
        return resumed
    session.new(directory, session_id, cwd)  # Refuses an id that is taken.
    return resumed.fork(session_id, session.path_of(directory, session_id, cwd))


def _prompts(options: Options, conversation: session.Session) -> list[Line]:
    text = options.prompt if options.prompt is not None else sys.stdin.read()
    if not text.strip():
        if conversation.deferred is not None:
            return []
        if options.resume:
            raise UsageError(
                "Error: No deferred tool marker found in the resumed session. "
                "Provide a prompt to continue the conversation."
            )
        raise UsageError(
            "Error: Input must be provided either through stdin or as a prompt argument "
            "when using --print"
        )
    return [{"type": "user", "message": {"role": "user", "content": text}}]
