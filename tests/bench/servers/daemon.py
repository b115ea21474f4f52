"""A daemon of one version in a separate process, with a new home."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.machine import processor_seconds
from tests.bench.versions import Version
from tests.support import PATIENCE_SECONDS, LineClient


@dataclass(frozen=True)
class BenchDaemon:
    """A running daemon."""

    version: Version
    home: Path
    pid: int
    record: dict[str, Any]

    @property
    def address(self) -> dict[str, Any]:
        """Where clients find it, and their token."""
        token = Path(self.record["token_file"]).read_text().strip()
        return {"url": self.record["ws_url"], "token": token, "unix": self.record["socket"]}

    @property
    def database(self) -> Path:
        """The file of its data."""
        return self.home / "hub.db"

    def processor_seconds(self) -> float:
        """Return the processor time that it has taken."""
        return processor_seconds(self.pid)

    async def events(self, method: str, **params: Any) -> list[dict[str, Any]]:
        """Make one call and return its events."""
        async with LineClient(self.record["socket"]) as client:
            items = await client.call(method, params)
        assert all(item["type"] != "error" for item in items), items
        return [item["content"] for item in items if item["type"] == "data"]


@contextmanager
def daemon(version: Version, home: Path, *plugins: str, config: str = "") -> Iterator[BenchDaemon]:
    """Run a daemon with plugins of `tests.bench`, and stop it in the end."""
    home.mkdir(mode=0o700, parents=True)
    if config:
        (home / "config.toml").write_text(config)
    options = [word for plugin in plugins for word in ("--plugin", f"tests.bench.{plugin}")]
    process = subprocess.Popen(
        [sys.executable, "-m", "hubd", "run", "--home", str(home), "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=version.environment(),
        cwd=version.root,
    )
    try:
        assert process.stderr is not None
        output = b""
        while b" ready on " not in output:
            line = process.stderr.readline()
            assert line, f"the daemon did not start: {output.decode()}"
            output += line
        # A full pipe would stop the daemon.
        process.stderr.close()
        record = json.loads((home / "hubd.json").read_text())
        yield BenchDaemon(version, home, process.pid, record)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()


async def settle() -> None:
    """Let the start of servers come to its end, so that no slice shares the processor with it."""
    await asyncio.sleep(0.5)
