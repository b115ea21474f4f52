"""The choice of the program that answers: `claude` or the offline agent."""

import sys
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field

from hubd.activation import Unavailable
from hubd.conversations.settings import ContextSettings
from hubd.plugins.claudecode.program.locate import locate
from hubd.wire.lazy_dataclass import dataclass

OFFLINE_MODEL: Final = "offline"
# -P: a file in the working directory must not replace a module.
OFFLINE_PROGRAM: Final = (sys.executable, "-P", "-m", "hubd.offline_agent")
INSTALL: Final = (
    "No claude program was found, so the offline agent answers. Install Claude Code, or "
    "`pip install 'hubd[claude]'`, and make sure that `claude` is on the PATH"
)

Name = Literal["claude", "offline"]


class Settings(ContextSettings, defer_build=True):
    """The settings of claudecode."""

    engine: Literal["auto", "claude", "offline"] = "auto"
    # The path or the name of `claude`; by default the usual places are searched.
    program: str | None = None
    # Seconds after which an agent that prints nothing is ended, and its chat fails.
    silence_seconds: float = Field(3600, gt=0)
    # Seconds that an agent waits for an approval before its process ends. The approval stays.
    park_secs: float = Field(600, gt=0)
    # Days after which the events of chats that have ended are removed; 0 keeps them.
    retention_days: float = Field(0, ge=0)


@dataclass(frozen=True)
class Engine:
    """A program, and advice if it replaces another one."""

    name: Name
    program: tuple[str, ...]
    advice: str = ""


def choose(
    settings: Settings, model: str | None, before: str | None, environ: Mapping[str, str]
) -> Engine:
    """Return the program for a chat.

    Args:
        settings: The settings of the plugin.
        model: The requested model.
        before: The program that answered earlier in this session.
        environ: The environment with PATH and HOME.

    Raises:
        Unavailable: The chat needs `claude`, and it is not installed.
    """
    if model == OFFLINE_MODEL or settings.engine == "offline":
        return Engine("offline", OFFLINE_PROGRAM)
    claude = locate(settings.program, environ)
    if claude is not None:
        return Engine("claude", (str(claude.path),))
    if settings.engine == "claude" or before == "claude":
        raise Unavailable(
            "no claude program was found",
            suggestion="Install Claude Code, or `pip install 'hubd[claude]'`; `--model offline` "
            "starts a session with the offline agent",
        )
    return Engine("offline", OFFLINE_PROGRAM, INSTALL)
