"""A local NATS with JetStream, which syncs a message before it acknowledges it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.row import Missing
from tests.bench.servers.local import free_port, library, program


@contextmanager
def nats_server(directory: Path) -> Iterator[int]:
    """Run it; yields its port.

    Raises:
        Missing: It, or its client library, is not installed, or it is too old.
    """
    nats_py()
    path = program("nats-server", package="nats-server")
    port = free_port()
    config = directory / "nats.conf"
    store = directory / "nats"
    config.write_text(
        f'listen: 127.0.0.1:{port}\njetstream {{ store_dir: "{store}", sync_interval: always }}\n'
    )
    checked = subprocess.run([path, "-c", config, "-t"], capture_output=True, check=False)
    if checked.returncode:
        raise Missing("nats-server can't sync before it acknowledges: version 2.10 or newer can")
    with subprocess.Popen([path, "-c", config], stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            while b"Server is ready" not in (line := process.stderr.readline()):
                assert line, "nats-server did not start"
            yield port
        finally:
            process.terminate()
            process.communicate()


def nats_py() -> Any:
    """Import the client library.

    Raises:
        Missing: It is not installed.
    """
    return library("nats", package="nats-py")
