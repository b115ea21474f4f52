"""The options of a chat as the command line of `claude`. Pure: it runs nothing, reads no file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hubd.errors import InvalidParams

# JSON lines on both pipes. The prompt comes through stdin as well: on the command line it would
# be swallowed by the flags that take lists, and every user of the machine could read it.
STREAM_JSON: Final = (
    "--print",
    "--input-format=stream-json",
    "--output-format=stream-json",
    # Without it `claude` refuses stream-json.
    "--verbose",
    "--include-partial-messages",
)

# Linux takes no longer argument (MAX_ARG_STRLEN, with the zero at its end).
MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """What one run of `claude` is told; what is not set, the user's own settings decide.

    What may hold secrets is the path of a file: a command line is public on its machine.

    Attributes:
        model: A name or an alias; any name is accepted, the API decides.
        system_prompt: The text, or the file that holds it if it is long or private.
        replace_system_prompt: It stands in place of `claude`'s own instead of after it.
        allowed_tools: Rules such as `Bash(git *)` that need no permission.
        disallowed_tools: Rules of what is never permitted.
        permission_mode: `default`, `plan`, `acceptEdits` and so on.
        permission_prompt_tool: Who is asked: `stdio`, or an MCP tool with underscores.
        mcp_config: A file that names MCP servers, and may hold their tokens.
        strict_mcp_config: Only those servers, and none of the user's own.
        settings: A file of more settings, in the format of `claude`'s settings.json.
        resume: The native id of the session to go on with.
        fork_session: Go on under a new native id and leave the old session as it is.
        resume_session_at: The uuid of the assistant message to branch at; only in a fork.
        session_id: The native id of a new session or fork; a UUID that was never used.
        max_turns: How many rounds of tool use the agent may take.
    """

    model: str | None = None
    system_prompt: str | Path | None = None
    replace_system_prompt: bool = False
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    permission_mode: str | None = None
    permission_prompt_tool: str | None = None
    mcp_config: Path | None = None
    strict_mcp_config: bool = False
    settings: Path | None = None
    resume: str | None = None
    fork_session: bool = False
    resume_session_at: str | None = None
    session_id: str | None = None
    max_turns: int | None = None


def command_line(program: Sequence[str], options: ChatOptions) -> list[str]:
    """The command that runs a chat with these options; the prompt goes to its stdin.

    Args:
        program: The program, with arguments of its own if it has any.
        options: What it is told.

    Raises:
        InvalidParams: The options contradict each other, or a text cannot be an argument.
    """
    _check_session(options)
    command = [*program, *STREAM_JSON, *_flags(options)]
    for argument in command:
        _check_argument(argument)
    return command


def _flags(options: ChatOptions) -> Iterator[str]:
    """Each flag with its value in one argument.

    `--flag value` would take a value that begins with a dash for another flag, and a flag that
    takes a list would go on to swallow what follows it. For the same reason every tool rule has
    a flag of its own, which also keeps commas and blanks inside a rule.
    """
    single = {
        "--model": options.model,
        "--permission-mode": options.permission_mode,
        "--permission-prompt-tool": options.permission_prompt_tool,
        "--mcp-config": options.mcp_config,
        "--settings": options.settings,
        "--resume": options.resume,
        "--resume-session-at": options.resume_session_at,
        "--session-id": options.session_id,
        "--max-turns": options.max_turns,
        _system_prompt_flag(options): options.system_prompt,
    }
    for flag, value in single.items():
        if value is not None:
            yield f"{flag}={value}"
    for rule in options.allowed_tools:
        yield f"--allowedTools={rule}"
    for rule in options.disallowed_tools:
        yield f"--disallowedTools={rule}"
    if options.strict_mcp_config:
        yield "--strict-mcp-config"
    if options.fork_session:
        yield "--fork-session"


def _system_prompt_flag(options: ChatOptions) -> str:
    flag = "--system-prompt" if options.replace_system_prompt else "--append-system-prompt"
    return f"{flag}-file" if isinstance(options.system_prompt, Path) else flag


def _check_session(options: ChatOptions) -> None:
    """What `claude` would refuse, or worse, ignore."""
    if options.fork_session and options.resume is None:
        raise InvalidParams("a fork needs the session to fork: resume is not set")
    if options.resume_session_at is not None and not options.fork_session:
        raise InvalidParams("only a fork can begin at an earlier message: fork_session is not set")
    if options.resume is not None and options.session_id is not None and not options.fork_session:
        raise InvalidParams("a resumed session keeps its id: session_id needs fork_session")


def _check_argument(argument: str) -> None:
    name = argument.partition("=")[0]
    try:
        # As the system will: names of files may hold bytes that are not UTF-8.
        size = len(argument.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise InvalidParams(f"the value of {name} is not valid Unicode") from None
    if "\0" in argument:
        raise InvalidParams(f"the value of {name} contains a zero character")
    if size > MAX_ARGUMENT_BYTES:
        raise InvalidParams(
            f"the value of {name} is too long for a command line",
            suggestion="Give the text as a file",
        )
