"""The options of a session: changes by a chat, and the secrets in them."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hubd.errors import Conflict
from hubd.plugins.claudecode.program.argv import ChatOptions
from hubd.plugins.claudecode.program.engine import OFFLINE_MODEL, Settings
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.wire.lazy_pattern import lazy_pattern

Options = Mapping[str, Any]

# The parameters of `chat` and `create` that a session stores as its options.
STORED: Final = (
    "model",
    "system_prompt",
    "mcp_config",
    "loopback_enabled",
    "allowed_tools",
    "disallowed_tools",
    "permission_mode",
    "approver",
    "escalate_secs",
    "deadline_secs",
    "grants",
    "max_cost",
    "max_turns",
)

# The text that replaces a secret.
HIDDEN: Final = "***"
# Names of options of a server's command with a secret as their value.
_SECRET_FLAG: Final = lazy_pattern(
    r"(?i)^(?P<flag>--?[\w-]*(token|key|secret|passw|auth|header|credential)[\w-]*)(=.*)?$",
    re.DOTALL,
)
_BEARER: Final = lazy_pattern(r"(?i)\b(bearer|basic)\s+\S+")


def given_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the session options among the parameters of a call; None means not given."""
    return {name: params[name] for name in STORED if params.get(name) is not None}


def chat_options(options: Options) -> ChatOptions:
    """Return the options of the program's command line."""
    return ChatOptions(
        model=options.get("model"),
        system_prompt=options.get("system_prompt") or None,
        allowed_tools=tuple(options.get("allowed_tools") or ()),
        disallowed_tools=tuple(options.get("disallowed_tools") or ()),
        permission_mode=options.get("permission_mode"),
        permission_prompt_tool="stdio" if asks_for_approval(options) else None,
    )


def asks_for_approval(options: Options) -> bool:
    """Return whether the agent's questions go to an approver; by default they do."""
    return bool(options.get("loopback_enabled", True))


def system_prompt_digest(options: ChatOptions) -> str | None:
    """Return a digest of the system prompt, if the chat has one."""
    prompt = options.system_prompt
    return sha256(prompt.encode()).hexdigest()[:16] if isinstance(prompt, str) else None


def stored_options(session: SessionRow) -> dict[str, Any]:
    """Return the options of a session, secrets included."""
    options: dict[str, Any] = json.loads(session.options)
    return options


def changed(stored: Options, given: Options) -> list[str]:
    """Return the names of the options that a call would change."""
    return [name for name, value in given.items() if stored.get(name) != value]


def check_engine(settings: Settings, session: SessionRow, model: str | None) -> None:
    """Refuse a model that would change the program of a session.

    Raises:
        Conflict: The session runs on the other program.
    """
    if model is None or settings.engine == "offline":
        return
    before = stored_options(session).get("model")
    program: str | None = session.engine if session.engine == "claude" else None
    if program is None and before is not None:
        program = "offline" if before == OFFLINE_MODEL else "claude"
    wanted = "offline" if model == OFFLINE_MODEL else "claude"
    if program is not None and program != wanted:
        agent = {"offline": "the offline agent", "claude": "claude"}
        raise Conflict(
            f"session '{session.name}' runs on {agent[program]}, but model '{model}' needs "
            f"{agent[wanted]}",
            suggestion="Use another name for a new session, or leave out the model",
        )


def public(options: Options) -> dict[str, Any]:
    """Return options for clients, without the secrets of MCP servers."""
    copy = dict(options)
    if isinstance(copy.get("mcp_config"), dict):
        copy["mcp_config"] = _public_config(copy["mcp_config"])
    return copy


def _public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    servers = config.get("mcpServers")
    if isinstance(servers, dict):
        return {**config, "mcpServers": _public_config(servers)}
    return {
        name: _public_server(entry) if isinstance(entry, dict) else entry
        for name, entry in config.items()
    }


def _public_server(server: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in server.items():
        if name in ("type", "command", "timeout"):
            fields[name] = value
        elif name == "url" and isinstance(value, str):
            fields[name] = _public_text(value)
        elif name == "args" and isinstance(value, list):
            fields[name] = _public_arguments(value)
        else:
            # Headers, environments, and every field that may hold a secret.
            fields[name] = _hidden(value)
    return fields


def _public_arguments(arguments: list[Any]) -> list[Any]:
    public_arguments: list[Any] = []
    is_secret = False
    for argument in arguments:
        text = str(argument)
        match = _SECRET_FLAG.match(text)
        if is_secret and not text.startswith("-"):
            public_arguments.append(HIDDEN)
        elif match and "=" in text:
            public_arguments.append(f"{match['flag']}={HIDDEN}")
        else:
            public_arguments.append(_public_text(text))
        is_secret = bool(match) and "=" not in text
    return public_arguments


def _public_text(text: str) -> str:
    """Return a text without bearer tokens; a URL without passwords and query values."""
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    try:
        parts = urlsplit(text)
    except ValueError:
        return HIDDEN
    if not parts.scheme or not parts.netloc:
        return text
    authority = parts.netloc.rpartition("@")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    query = urlencode([(name, HIDDEN) for name in names], safe="*")
    netloc = f"{HIDDEN}@{authority[2]}" if authority[1] else parts.netloc
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def _hidden(value: Any) -> Any:
    """Return a value of the same shape with every text hidden."""
    if isinstance(value, dict):
        return {name: _hidden(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_hidden(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | float) else HIDDEN
