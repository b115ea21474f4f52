"""The command line of the offline agent: the flags of `claude` that the hub uses."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

# Flags with one value, and their field.
ONE_VALUE: Final = {
    "--output-format": "output_format",
    "--input-format": "input_format",
    "--model": "model",
    "--system-prompt": "system_prompt",
    "--append-system-prompt": "append_system_prompt",
    "--permission-mode": "permission_mode",
    "--permission-prompt-tool": "permission_prompt_tool",
    "--resume-session-at": "resume_session_at",
    "--session-id": "session_id",
    "--max-turns": "max_turns",
    # Its answers cost nothing, so it never reaches the budget.
    "--max-budget-usd": "max_budget_usd",
    "--settings": "settings",
    # Only the offline agent has this flag: claude uses CLAUDE_CONFIG_DIR.
    "--session-directory": "session_directory",
}

# Flags with any number of values, as in claude; a prompt can't follow them.
MANY_VALUES: Final = {
    "--allowedTools": "allowed_tools",
    "--allowed-tools": "allowed_tools",
    "--disallowedTools": "disallowed_tools",
    "--disallowed-tools": "disallowed_tools",
    "--mcp-config": "mcp_config",
}

SWITCHES: Final = {
    "-p": "print",
    "--print": "print",
    "--verbose": "verbose",
    "--include-partial-messages": "partial_messages",
    "--replay-user-messages": "replay_user_messages",
    "--strict-mcp-config": "strict_mcp_config",
    "--fork-session": "fork_session",
    "-h": "help",
    "--help": "help",
    "-v": "version",
    "--version": "version",
}


class UsageError(Exception):
    """The command line is invalid. The text goes to stderr, the exit status is 1."""


class Options(NamedTuple):
    """The options of the command line."""

    print: bool = False
    verbose: bool = False
    partial_messages: bool = False
    replay_user_messages: bool = False
    strict_mcp_config: bool = False
    fork_session: bool = False
    help: bool = False
    version: bool = False
    output_format: str = "text"
    input_format: str = "text"
    model: str = "offline"
    system_prompt: str = ""
    append_system_prompt: str = ""
    permission_mode: str = "default"
    permission_prompt_tool: str = ""
    resume: str = ""
    resume_session_at: str = ""
    session_id: str = ""
    max_turns: str = ""
    max_budget_usd: str = ""
    settings: str = ""
    session_directory: str = ""
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    mcp_config: tuple[str, ...] = ()
    prompt: str | None = None
    # Flags that are not supported; they are named on stderr.
    unknown: tuple[str, ...] = ()

    @property
    def rounds(self) -> int | None:
        """The maximum number of messages of one turn, from --max-turns."""
        return int(self.max_turns) if self.max_turns else None


def parse(arguments: Sequence[str]) -> Options:
    """Read a command line.

    Raises:
        UsageError: A value is missing or invalid.
    """
    fields: dict[str, Any] = {}
    many: dict[str, list[str]] = {}
    positional: list[str] = []
    unknown: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            positional += rest
            break
        if not word.startswith("-") or word == "-":
            positional.append(word)
        elif word in SWITCHES:
            fields[SWITCHES[word]] = True
        elif name in ONE_VALUE:
            if not equals and not rest:
                raise UsageError(f"error: option '{name}' argument missing")
            fields[ONE_VALUE[name]] = value if equals else rest.pop(0)
        elif name in MANY_VALUES:
            values = many.setdefault(MANY_VALUES[name], [])
            if equals:
                values.append(value)
            while not equals and rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
        elif name in ("--resume", "-r"):
            # The value is optional in claude, so a flag can't be the value.
            takes_next = not equals and rest and not rest[0].startswith("-")
            fields["resume"] = rest.pop(0) if takes_next else value
        else:
            unknown.append(name)
            # The next word is probably its value, unless it is the last word.
            if not equals and len(rest) > 1 and not rest[0].startswith("-"):
                rest.pop(0)
    fields |= {name: tuple(values) for name, values in many.items()}
    prompt = positional[0] if positional else None
    options = Options(**fields, prompt=prompt, unknown=tuple(unknown))
    _check(options)
    return options


def _check(options: Options) -> None:
    if options.help or options.version:
        return
    if options.output_format == "stream-json" and options.print and not options.verbose:
        raise UsageError(
            "Error: When using --print, --output-format=stream-json requires --verbose"
        )
    if options.input_format == "stream-json" and options.output_format != "stream-json":
        raise UsageError("Error: --input-format=stream-json requires output-format=stream-json.")
    if options.session_id:
        if not is_uuid(options.session_id):
            raise UsageError("Error: Invalid session ID. Must be a valid UUID.")
        if options.resume and not options.fork_session:
            raise UsageError(
                "Error: --session-id can only be used with --continue or --resume "
                "if --fork-session is also specified."
            )
    if options.max_turns and not (options.max_turns.isdecimal() and int(options.max_turns)):
        raise UsageError("error: option '--max-turns <turns>' must be a positive number")


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID in claude's format."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
