"""The command line of `claude` for the options of a chat. No I/O."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hubd.errors import InvalidParams
from hubd.wire.lazy_dataclass import dataclass

# JSON lines on both pipes. The prompt is sent on stdin too: flags that take lists would swallow it
# on the command line, and every user of the machine could read it.
STREAM_JSON: Final = (
    "--print",
    "--input-format=stream-json",
    "--output-format=stream-json",
    # Without it `claude` refuses stream-json.
    "--verbose",
    "--include-partial-messages",
)

# The maximum on Linux (MAX_ARG_STRLEN, without the final zero).
MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1


@dataclass(frozen=True, kw_only=True)
class ChatOptions:
    """The options of one run of `claude`. The user's settings replace those that are not set.

    Options that may contain secrets are paths of files: a command line is public on its machine.

    Attributes:
        model: A name or an alias. The API checks it.
        system_prompt: The text, or the file with the text if it is long or private.
        replace_system_prompt: Replace `claude`'s own system prompt instead of appending to it.
        allowed_tools: Rules for tool calls that need no approval, such as `Bash(git *)`.
        disallowed_tools: Rules for tool calls that are always denied.
        permission_mode: `default`, `plan`, `acceptEdits` and so on.
        permission_prompt_tool: The tool that approves calls: `stdio`, or the name of an MCP tool.
        mcp_config: A file with MCP servers and possibly their tokens.
        strict_mcp_config: Use only these servers and not the user's.
        settings: A file with settings in the format of `claude`'s settings.json.
        resume: The native id of the session to continue.
        fork_session: Continue under a new native id; the old session does not change.
        resume_session_at: The uuid of the assistant message to branch at; for a fork only.
        session_id: The native id of a new session or fork; an unused UUID.
        max_turns: The maximum number of rounds of tool use.
        max_budget_usd: The most that the run may cost in US dollars.
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
    max_budget_usd: float | None = None


def command_line(program: Sequence[str], options: ChatOptions) -> list[str]:
    """Return the command that runs a chat with these options; its stdin takes the prompt.

    Args:
        program: The program and its first arguments.
        options: The options of the chat.

    Raises:
        InvalidParams: The options contradict each other, or a text cannot be an argument.
    """
    _check_session(options)
    command = [*program, *STREAM_JSON, *_flags(options)]
    for argument in command:
        _check_argument(argument)
    return command


def _flags(options: ChatOptions) -> Iterator[str]:
    """Yield each flag with its value as one argument.

    In `--flag value`, a value with a leading dash would count as another flag, and a flag that
    takes a list would swallow the next arguments. Each tool rule has a separate flag for the same
    reason; this also preserves commas and spaces in a rule.
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
        "--max-budget-usd": options.max_budget_usd,
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
    """Refuse options that `claude` would refuse or ignore."""
    if options.fork_session and options.resume is None:
        raise InvalidParams("a fork needs the session to fork: resume is not set")
    if options.resume_session_at is not None and not options.fork_session:
        raise InvalidParams("only a fork can begin at an earlier message: fork_session is not set")
    if options.resume is not None and options.session_id is not None and not options.fork_session:
        raise InvalidParams("a resumed session keeps its id: session_id needs fork_session")


def _check_argument(argument: str) -> None:
    name = argument.partition("=")[0]
    try:
        # Like the system: file names may contain bytes that are not UTF-8.
        size = len(argument.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise InvalidParams(f"the value of {name} is not valid Unicode") from None
    if "\0" in argument:
        raise InvalidParams(f"the value of {name} contains a zero character")
    if size > MAX_ARGUMENT_BYTES:
        raise InvalidParams(
            f"the value of {name} is too long for a command line",
            suggestion="Pass the text in a file",
        )
