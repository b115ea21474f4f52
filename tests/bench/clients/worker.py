"""One process of clients: `python -m tests.bench.clients.worker MODULE:FUNCTION FIRST COUNT`.

The function connects and returns a function that does a number of units of work for each of its
producers. The first line of standard input is the address of the server as JSON. Every further
line is a number of units, and every line of standard output the processor time they took.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

# Does a number of units of work for each producer.
Run = Callable[[int], Awaitable[None]]
Address = dict[str, Any]


async def main(kind: str, producers: range) -> None:
    """Run one client."""
    module, _, function = kind.partition(":")
    address: Address = json.loads(sys.stdin.readline())
    run: Run = await getattr(importlib.import_module(module), function)(address, producers)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        began = time.process_time()
        await run(int(line))
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    _, kind_name, first, count = sys.argv
    asyncio.run(main(kind_name, range(int(first), int(first) + int(count))))
