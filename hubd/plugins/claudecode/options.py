"""The options of a session: how a chat changes them, and which parts of them are secret."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hubd.errors import Conflict
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.program.argv import ChatOptions
from hubd.plugins.claudecode.program.engine import OFFLINE_MODEL, Settings

Options = Mapping[str, Any]

# In place of a secret.
HIDDEN: Final = "***"
# Options of a server's command whose value is a secret, by their names.
_SECRET_FLAG: Final = re.compile(
    r"(?i)^(?P<flag>--?[\w-]*(token|key|secret|passw|auth|header|credential)[\w-]*)(=.*)?$",
    re.DOTALL,
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+\S+")


def given_options(**options: Any) -> dict[str, Any]:
    """Return the options that a call gives; None means that it does not."""
    return {name: value for name, value in options.items() if value is not None}


def chat_options(options: Options) -> ChatOptions:
    """Return what the program is told."""
    return ChatOptions(
        model=options.get("model"),
        system_prompt=options.get("system_prompt") or None,
        allowed_tools=tuple(options.get("allowed_tools") or ()),
        disallowed_tools=tuple(options.get("disallowed_tools") or ()),
        permission_mode=options.get("permission_mode"),
    )


def system_prompt_digest(options: ChatOptions) -> str | None:
    """Return a text that tells one system prompt from another; None if there is none."""
    prompt = options.system_prompt
    return sha256(prompt.encode()).hexdigest()[:16] if isinstance(prompt, str) else None


def stored_options(session: store.SessionRow) -> dict[str, Any]:
    """Return the options of a session, secrets included."""
    options: dict[str, Any] = json.loads(session.options)
    return options


def changed(stored: Options, given: Options) -> list[str]:
    """Return the names of the options that a call would change."""
    return [name for name, value in given.items() if stored.get(name) != value]


def check_engine(settings: Settings, session: store.SessionRow, model: str | None) -> None:
    """Refuse a model that would make another program answer in a session.

    Raises:
        Conflict: The session belongs to the other program.
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
            f"session '{session.name}' runs on {agent[program]}; the model '{model}' would run it "
            f"on {agent[wanted]}",
            suggestion="Use another name for a new session, or leave out the model",
        )


def public(options: Options) -> dict[str, Any]:
    """Return options as any client may see them: without the secrets of MCP servers."""
    shown = dict(options)
    if isinstance(shown.get("mcp_config"), dict):
        shown["mcp_config"] = _public_config(shown["mcp_config"])
    return shown


def _public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    servers = config.get("mcpServers")
    if isinstance(servers, dict):
        return {**config, "mcpServers": _public_config(servers)}
    return {
        name: _public_server(entry) if isinstance(entry, dict) else entry
        for name, entry in config.items()
    }


def _public_server(server: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in server.items():
        if name in ("type", "command", "timeout"):
            shown[name] = value
        elif name == "url" and isinstance(value, str):
            shown[name] = _public_text(value)
        elif name == "args" and isinstance(value, list):
            shown[name] = _public_arguments(value)
        else:
            # Headers, environments, and everything that is not known to be harmless.
            shown[name] = _hidden(value)
    return shown


def _public_arguments(arguments: list[Any]) -> list[Any]:
    shown: list[Any] = []
    is_secret = False
    for argument in arguments:
        text = str(argument)
        match = _SECRET_FLAG.match(text)
        if is_secret and not text.startswith("-"):
            shown.append(HIDDEN)
        elif match and "=" in text:
            shown.append(f"{match['flag']}={HIDDEN}")
        else:
            shown.append(_public_text(text))
        is_secret = bool(match) and "=" not in text
    return shown


def _public_text(text: str) -> str:
    """Return a text without bearer tokens; an address without passwords and query values."""
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    try:
        parts = urlsplit(text)
    except ValueError:
        return HIDDEN
    if not parts.scheme or not parts.netloc:
        return text
    place = parts.netloc.rpartition("@")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    query = urlencode([(name, HIDDEN) for name in names], safe="*")
    netloc = f"{HIDDEN}@{place[2]}" if place[1] else parts.netloc
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def _hidden(value: Any) -> Any:
    """Return the same shape with every value hidden."""
    if isinstance(value, dict):
        return {name: _hidden(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_hidden(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | float) else HIDDEN
