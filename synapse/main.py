"""The `synapse` command: the fast path if it can, else the full way; every end has its status."""

from __future__ import annotations

import os
import sys

from synapse.errors import CommandError

INTERRUPTED = 130


def main() -> int:
    """Run one command line; returns the exit status."""
    argv = sys.argv[1:]
    try:
        if "_SYNAPSE_COMPLETE" in os.environ:
            from synapse.complete import answer

            return answer(argv)
        from synapse.fastpath import attempt

        status = attempt(argv) if argv else None
        if status is None:
            status = _full(argv)
        sys.stdout.flush()
    except CommandError as error:
        _report(error)
        return error.status
    except KeyboardInterrupt:
        # The daemon notices that we are gone; what runs in the background goes on.
        _silence()
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it.
        _silence()
        return 0
    return status


def _full(argv: list[str]) -> int:
    from synapse.full import run

    try:
        return run(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        status = _usage_status(error)
        if status is None:
            raise
        return status


def _usage_status(error: Exception) -> int | None:
    """What Typer refuses is a usage error; anything else is a defect of ours."""
    show = getattr(error, "show", None)
    if show is None or not hasattr(error, "exit_code"):
        return None
    show()
    return int(error.exit_code)


def _report(error: CommandError) -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    text = f"synapse: {error.message}\n"
    if error.hint:
        text += f"         {error.hint}\n"
    sys.stderr.write(text)


def _silence() -> None:
    """Keep the interpreter from complaining about a stdout that is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
