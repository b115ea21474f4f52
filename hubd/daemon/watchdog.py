"""End the process some time after SIGTERM, even if Python code can't run.

A native function that never returns may hold the interpreter's lock, for example after a failed
allocation. Signal handlers and threads in Python then wait forever. The chain from the signal to
the end of the process therefore contains no Python code:

1. SIGTERM or SIGINT: the handler of `faulthandler`, which is in C, writes to a pipe, and passes the
   signal on to the ordinary handler.
2. The pipe has data: the kernel sends SIGUSR1, because the pipe has an owner (F_SETOWN, F_SETSIG).
3. SIGUSR1: its handler is the C library's own `alarm`, called with the number of the signal, 10.
4. SIGALRM comes ten seconds later: `faulthandler` writes the stack of each thread to the log, and
   the signal's default action ends the process.

A timer that the event loop resets regularly would be simpler. But it would also end a healthy
daemon that was suspended (Ctrl-Z, a paused virtual machine) for longer than the timer.

Only Linux can choose the signal of a pipe. On other systems the caller's timer must suffice.
"""

import faulthandler
import fcntl
import os
import signal
from pathlib import Path


def install(log: Path) -> None:
    """Watch SIGTERM and SIGINT. Call this after their ordinary handlers are set.

    Args:
        log: The file for the stacks of all threads.
    """
    if not hasattr(fcntl, "F_SETSIG"):
        return
    import ctypes  # The daemon uses it only here.

    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGUSR1)
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal.restype = ctypes.c_void_p
    libc.signal(signal.SIGUSR1, ctypes.cast(libc.alarm, ctypes.c_void_p))
    stacks = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Both descriptors stay open until the process ends.
    faulthandler.register(signal.SIGALRM, file=stacks, all_threads=True, chain=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        faulthandler.register(number, file=writer, all_threads=False, chain=True)
