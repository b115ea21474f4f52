"""The watchdog is armed by the signal itself, without any Python code."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE_SECONDS, environment

# The native function holds the interpreter's lock until a signal has been handled.
CODE = """
import ctypes, signal, sys
from pathlib import Path
from hubd.daemon import watchdog

handled = []
signal.signal(signal.SIGTERM, lambda number, frame: handled.append(number))
watchdog.install(Path(sys.argv[1]))
armed = signal.getitimer(signal.ITIMER_REAL)[0] > 0
# The signal must not arrive before the native function waits for it.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
ctypes.PyDLL(None).sigsuspend(ctypes.create_string_buffer(128))
print(armed, signal.getitimer(signal.ITIMER_REAL)[0] > 0, *handled, flush=True)
signal.raise_signal(signal.SIGALRM)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the chain of signals is Linux's")
def test_a_signal_arms_the_watchdog_while_native_code_holds_the_interpreter(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", CODE, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=PATIENCE_SECONDS)[0]
    # The ordinary handler runs as well, as soon as it can.
    assert printed == f"False True {signal.SIGTERM.value}\n"
    assert process.returncode == -signal.SIGALRM
    assert 'File "<string>", line' in log.read_text()
