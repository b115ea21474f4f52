"""Large messages: parsed once, without garbage collection.

Parsing holds the interpreter, so one client's message delays all other clients. `wire/limits.py`
limits the content of a message; this module keeps the time per element short. Two thirds of it
would be garbage collection, which finds nothing in fresh JSON.
"""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pydantic_core import from_json

from hubd.wire.jsonrpc import TooLarge
from hubd.wire.limits import LARGE_BYTES, MAX_DEPTH, RPC_COUNTS, Counts, excess

# Seconds, longer than an ordinary call takes.
PAUSE_SECONDS: Final = 0.005


def parse(message: bytes, limits: Counts = RPC_COUNTS) -> Any:
    """Parse one message. Nesting deeper than 200, lone surrogates and NaN are refused.

    Args:
        message: The message.
        limits: The maximum counts of a large message.

    Raises:
        TooLarge: The message exceeds a limit.
        ValueError: The message is not JSON.
    """
    try:
        if len(message) <= LARGE_BYTES:
            return from_json(message, allow_inf_nan=False, cache_strings="keys")
        if (reason := excess(message, limits)) is not None:
            raise TooLarge(reason)
        with collection_paused():
            # Caching costs more than it saves if the strings differ.
            return from_json(message, allow_inf_nan=False, cache_strings="none")
    except ValueError as error:
        if "recursion limit exceeded" in str(error):
            raise TooLarge(f"it is nested deeper than {MAX_DEPTH} levels") from None
        raise


async def pause() -> None:
    """Let the calls of other clients finish between two steps of work on a large message."""
    await asyncio.sleep(PAUSE_SECONDS)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Run a block without garbage collection."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
