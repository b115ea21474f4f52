"""The caller context: the working directory and the environment of this process."""

from __future__ import annotations

import os

from synapse.params.values import is_text


def caller_context() -> dict[str, object]:
    """Return the working directory and the environment, without values outside UTF-8."""
    try:
        directory: str | None = os.getcwd()
    except OSError:  # The directory was removed.
        directory = None
    environment = {
        name: text for name, text in os.environ.items() if is_text(name) and is_text(text)
    }
    return {"cwd": directory, "env": environment}
