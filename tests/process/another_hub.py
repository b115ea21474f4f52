"""A child in another Python process, which a test kills as hubd may be killed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hubd.process.tree import Identity, kill_tree
from tests.process.support import fake
from tests.support import environment

HUB = """
import asyncio, json, os, sys
from pathlib import Path
from hubd.process.child import ChildProcess

async def main():
    command, mark, options = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    async with ChildProcess(command, cwd=Path("/"), env={}, mark=mark, **options) as child:
        async for line in child.lines():
            pids = [int(word) for word in line.split() if word.isdigit()]
            print(json.dumps([*child.identity, *pids]), flush=True)

asyncio.run(main())
"""


@contextmanager
def another_hub(
    mark: str, *behaviour: str, **options: Any
) -> Iterator[tuple[subprocess.Popen[bytes], list[Any]]]:
    """Run a child in another Python process, and yield the pids that it prints."""
    texts = (json.dumps(fake(*behaviour)), mark, json.dumps(options))
    command = [sys.executable, "-c", HUB, *texts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as hub:
        child = Identity(0, "")
        try:
            assert hub.stdout is not None
            message = json.loads(hub.stdout.readline())
            child = Identity(*message[:2])
            yield hub, message
        finally:
            hub.kill()
            # A failed test must not leave processes behind.
            kill_tree(child, mark)
