"""The `synapse` command: the fast path if it can, else the full way; every end has its status."""

from __future__ import annotations

import os
import sys

from synapse.errors import CommandError

INTERRUPTED = 130


def main() -> int:
    """Run one command line; returns the exit status."""
    argv = sys.argv[1:]
    _fill_gaps()
    try:
        if "_SYNAPSE_COMPLETE" in os.environ:
            from synapse.complete import answer

            status: int | None = answer(argv)
        else:
            from synapse.fastpath import attempt

            status = attempt(argv) if argv else None
        if status is None:
            status = _full(argv)
        # The launcher ends the process without the interpreter's own flush.
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
    except OSError as error:
        _silence()
        _report(CommandError(f"the output cannot be written: {error.strerror or error}"))
        return 1
    return status


def _full(argv: list[str]) -> int:
    from synapse.full import run

    try:
        return run(argv)
    except SystemExit:
        # How Typer leaves when nobody reads its help.
        raise BrokenPipeError from None


def _report(error: CommandError) -> None:
    from hubd.wire.terminal import one_line

    try:
        sys.stdout.flush()
    except OSError:
        _silence()
    text = f"synapse: {one_line(error.message)}\n"
    if error.hint:
        text += f"         {one_line(error.hint)}\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        return  # nobody listens, but the status still says it


def _fill_gaps() -> None:
    """Whoever starts us without a stdin, stdout or stderr gets an empty one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _silence() -> None:
    """Keep the interpreter from complaining about a stdout that is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
