"""Look up the addresses of a name with the system's resolver.

The system's call can't be cancelled and may take half a minute. It runs in a separate thread, so
that a slow name server takes no thread that other work of the hub waits for.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from hubd.activation import Unavailable
from hubd.errors import Overloaded

# Returns the addresses of a name, the best first.
Lookup = Callable[[str, int], Awaitable[list[str]]]

# Lookups at a time, including those that no call waits for any more.
MAX_LOOKUPS: Final = 32

_slots: Final = threading.Semaphore(MAX_LOOKUPS)


async def system_lookup(host: str, port: int) -> list[str]:
    """Return the addresses of a name.

    Raises:
        Unavailable: The name has no address.
        Overloaded: Too many lookups are running.
    """
    if not _slots.acquire(blocking=False):
        raise Overloaded(f"{MAX_LOOKUPS} names are being looked up already")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()
    # A daemon thread, so that the hub can stop while a name server does not answer.
    threading.Thread(
        target=_look_up, args=(host, port, loop, answer), name="web lookup", daemon=True
    ).start()
    return await answer


def _look_up(
    host: str, port: int, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[str]]
) -> None:
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in entries))
        settle = partial(_settle, answer, addresses)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        settle = partial(
            _settle,
            answer,
            Unavailable(
                f"the name {host[:253]} has no address: {reason or error}",
                suggestion="Check the name and the network",
            ),
        )
    finally:
        _slots.release()
    # The loop is closed if the hub has stopped.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(settle)


def _settle(answer: asyncio.Future[list[str]], result: list[str] | Unavailable) -> None:
    if answer.done():
        return  # The caller waits no more.
    if isinstance(result, Unavailable):
        answer.set_exception(result)
    else:
        answer.set_result(result)
