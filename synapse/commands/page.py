"""The address of the hub's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubd.wire import page_link
from hubd.wire.client import ClientError
from synapse.errors import CommandError
from synapse.hub.client import command_error

if TYPE_CHECKING:
    from synapse.hub.hubs import Hub


def page_address(hub: Hub) -> str:
    """Return a new address of the page; start the daemon if necessary.

    Raises:
        CommandError: The hub refuses, or does not answer.
    """
    connection = hub.connect()
    try:
        return page_link.ask(connection)
    except page_link.NoPage as error:
        raise CommandError(error.message, hint=error.suggestion, status=error.status) from None
    except ClientError as error:
        raise command_error(error) from None
    except TimeoutError:
        raise CommandError("the hub does not answer", hint="See: hubd logs", status=6) from None
    finally:
        connection.close()
