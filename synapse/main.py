"""The `synapse` command: the fast path if possible, else the full command."""

import os
import sys

from synapse.errors import CommandError, EndOfChat

INTERRUPTED = 130
# The start of the lines below the first one of an error.
_INDENT = " " * len("synapse: ")


def main() -> int:
    """Run one command line and return its exit status."""
    argv = sys.argv[1:]
    _open_missing_streams()
    try:
        if "_SYNAPSE_COMPLETE" in os.environ:
            from synapse.complete import answer

            status: int | None = answer(argv)
        else:
            from synapse.fastpath import attempt

            status = attempt(argv) if argv else None
        if status is None:
            status = _run_in_full(argv)
        # The launcher ends the process without the interpreter's own flush.
        sys.stdout.flush()
    except CommandError as error:
        report(error)
        return error.status
    except KeyboardInterrupt:
        # The daemon notices the closed connection; chats continue in the background.
        _discard_stdout()
        return INTERRUPTED
    except BrokenPipeError:
        # The program that reads the output has closed it.
        _discard_stdout()
        return 0
    except OSError as error:
        _discard_stdout()
        report(CommandError(f"the output cannot be written: {error.strerror or error}"))
        return 1
    return status


def _run_in_full(argv: list[str]) -> int:
    from synapse.command import run
    from synapse.preferences import expand_alias

    expanded = expand_alias(argv)
    if expanded != argv:
        from synapse.fastpath import attempt

        argv = expanded
        if (status := attempt(argv)) is not None:
            return status
    try:
        return run(argv)
    except SystemExit:
        # Typer exits this way if the reader of its help has closed the pipe.
        raise BrokenPipeError from None


def report(error: CommandError) -> None:
    """Print an error and its hint to stderr, unless a view has shown it."""
    if isinstance(error, EndOfChat) and error.is_reported:
        return
    from hubd.wire.terminal import one_line

    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
    if sys.stderr.isatty():
        from synapse.render.wrapping import error_lines

        lines = error_lines(error.message, "synapse: ")
        lines += error_lines(error.hint, _INDENT) if error.hint else []
    else:
        lines = [f"synapse: {one_line(error.message)}"]
        lines += [f"{_INDENT}{one_line(error.hint)}"] if error.hint else []
    try:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    except OSError:
        return  # stderr is closed; the exit status remains


def _open_missing_streams() -> None:
    """Replace a closed stdin, stdout or stderr by the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _discard_stdout() -> None:
    """Keep the interpreter from reporting a stdout that can't be flushed."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
