"""Check the installed `claude` program, for `hubd doctor`."""

import os
from pathlib import Path
from typing import Final

from hubd.activation import Finding, Unavailable
from hubd.plugins.claudecode.native.marker_check import MarkerSupport, check_marker
from hubd.plugins.claudecode.program.locate import locate

WHAT: Final = "claude"


# The results of the last checks, by the program's path, size and time of change.
_checked: dict[tuple[str, int, int], MarkerSupport] = {}


async def examine_program(setting: str | None) -> Finding:
    """Report the program's path and version, and whether it can continue a waiting call.

    The program runs once, without an account. It does not run again until it changes.

    Args:
        setting: The path or the name of the program, if it is set.
    """
    try:
        located = locate(setting, os.environ)
    except Unavailable as error:
        return Finding(WHAT, False, error.message)
    if located is None:
        return Finding(WHAT, True, "not installed; the offline agent answers")
    support = await _support_of(located.path)
    name = f"{located.path}, version {support.version or 'unknown'}"
    if support.works:
        return Finding(WHAT, True, f"{name}; continues a tool call that waits for an approval")
    reason = f"a tool call that waits for an approval is lost when the hub stops: {support.reason}"
    return Finding(WHAT, False, f"{name}; {reason}")


async def _support_of(program: Path) -> MarkerSupport:
    key = _identity(program)
    if key in _checked:
        return _checked[key]
    support = await check_marker(program)
    # A failure may have its reason outside of the program.
    if support.works:
        _checked.clear()
        _checked[key] = support
    return support


def _identity(program: Path) -> tuple[str, int, int]:
    try:
        status = program.stat()
    except OSError:
        return str(program), 0, 0
    return str(program), status.st_size, status.st_mtime_ns
