"""Check the installed `claude` program, for `hubd doctor`."""

import os
from typing import Final

from hubd.activation import Finding, Unavailable
from hubd.plugins.claudecode.native.marker_check import check_marker
from hubd.plugins.claudecode.program.locate import locate

WHAT: Final = "claude"


async def examine_program(setting: str | None) -> Finding:
    """Report the program's path and version, and whether it can continue a waiting call.

    The program runs once, without an account.

    Args:
        setting: The path or the name of the program, if it is set.
    """
    try:
        located = locate(setting, os.environ)
    except Unavailable as error:
        return Finding(WHAT, False, error.message)
    if located is None:
        return Finding(WHAT, True, "not installed; the offline agent answers")
    support = await check_marker(located.path)
    name = f"{located.path}, version {support.version or 'unknown'}"
    if support.works:
        return Finding(WHAT, True, f"{name}; continues a tool call that waits for an approval")
    reason = f"a tool call that waits for an approval is lost when the hub stops: {support.reason}"
    return Finding(WHAT, False, f"{name}; {reason}")
