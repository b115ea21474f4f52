"""Which program answers: the real `claude`, or the offline agent, and never silently."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, Field

from hubd.activation import Unavailable
from hubd.plugins.claudecode.program.locate import locate

OFFLINE_MODEL: Final = "offline"
# -P: nothing in the working directory may take the place of a module.
OFFLINE_PROGRAM: Final = (sys.executable, "-P", "-m", "hubd.offline_agent")
INSTALL: Final = (
    "No claude program was found, so the offline agent answers. Install Claude Code, or "
    "`pip install 'hubd[claude]'`, and make sure that `claude` is on the PATH"
)

Name = Literal["claude", "offline"]


class Settings(BaseModel, defer_build=True):
    """How claudecode works."""

    engine: Literal["auto", "claude", "offline"] = "auto"
    # Where `claude` is, if not where it usually is.
    program: str | None = None
    # Seconds after which an agent that prints nothing is ended, and its chat fails.
    silence_seconds: float = Field(3600, gt=0)
    # Days after which the events of chats that have ended are removed; 0 keeps them.
    retention_days: float = Field(0, ge=0)


@dataclass(frozen=True)
class Engine:
    """The program, and what to tell whoever did not ask for it."""

    name: Name
    program: tuple[str, ...]
    advice: str = ""


def choose(
    settings: Settings, model: str | None, before: str | None, environ: Mapping[str, str]
) -> Engine:
    """The program for a chat.

    Args:
        settings: What the user has said.
        model: The model that was asked for.
        before: Which program answered in this session before.
        environ: Where to look for it.

    Raises:
        Unavailable: There is no `claude`, and nothing else will do.
    """
    if model == OFFLINE_MODEL or settings.engine == "offline":
        return Engine("offline", OFFLINE_PROGRAM)
    found = locate(settings.program, environ)
    if found is not None:
        return Engine("claude", (str(found.path),))
    if settings.engine == "claude" or before == "claude":
        raise Unavailable(
            "no claude program was found",
            suggestion="Install Claude Code, or `pip install 'hubd[claude]'`; `--model offline` "
            "starts a session with the offline agent",
        )
    return Engine("offline", OFFLINE_PROGRAM, INSTALL)
