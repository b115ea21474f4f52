"""Runs between hubd and a program on Linux: sets two attributes of the process, then becomes it.

Started as `python -I -S launcher.py PARENT ENV PROGRAM ARGUMENT…`, because Python code between
fork and exec could deadlock in a daemon with threads. It imports only modules that are built in
or a single library, and takes about 10 ms.

PARENT is the pid of hubd. ENV is `keep` or `drop`: Python adds LC_CTYPE to an environment without
a locale, and `drop` removes it again.
"""

import _ctypes
import posix
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SIGTERM = 15


def main() -> None:
    """Set the attributes and replace this process."""
    parent, locale, program, *arguments = sys.argv[1:]
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    # Orphans of the program stay below it, where they can be found and ended.
    _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    _ctypes.call_function(prctl, (PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0))
    if posix.getppid() != int(parent):
        sys.exit(1)  # hubd died before the signal was set
    environment = dict(posix.environ)
    if locale == "drop":
        environment.pop(b"LC_CTYPE", None)
    try:
        posix.execve(program, [program, *arguments], environment)
    except OSError as error:
        sys.stderr.write(f"{program}: {error.strerror}\n")
        # As a shell does.
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


main()
