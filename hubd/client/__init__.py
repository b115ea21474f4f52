"""A client of the hub for other Python programs, in an async and a blocking form.

    async with Hub.connect() as hub:
        async for event in hub.call("echo.once", message="hi"):
            print(event)

    with SyncHub.connect() as hub:
        for event in hub.call("echo.once", message="hi"):
            print(event)

Any number of calls run at once on one connection. Leaving a loop early cancels its call. A failed
call raises the exception of `hubd.errors` for its code. A lost connection raises `Unavailable`;
to reconnect, connect again.
"""

from hubd.client.hub import Hub
from hubd.client.question import Question
from hubd.client.sync import SyncHub

__all__ = ["Hub", "Question", "SyncHub"]
