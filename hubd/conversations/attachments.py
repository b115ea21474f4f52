"""Attachments of a chat: handles that become nodes of the path, just above the prompt.

Each is context from then on, as every other external node: see context.py. All are resolved
before the chat stores anything.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pydantic import BaseModel

from hubd.activation import (
    AnyHandle,
    Host,
    HubError,
    InvalidParams,
    PermissionDenied,
    Resolved,
    WireHandle,
)
from hubd.conversations import context
from hubd.conversations.context import Role
from hubd.errors import by_code
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import MAX_HANDLE, Place
from hubd.storage.database import Tx

# The maximum number of characters of all attachments of a chat.
MAX_CHARACTERS: Final = 16 * 1024 * 1024


class Attached(BaseModel, defer_build=True):
    """An attachment in the tree."""

    node_id: str
    handle: AnyHandle


class Attachment(NamedTuple):
    """The message of an attachment."""

    handle: WireHandle
    role: Role
    content: str


class Chain(NamedTuple):
    """The nodes of the attachments of a chat, and the node below which the prompt follows."""

    end: Place
    attached: list[Attached]


async def check(host: Host, handles: Iterable[WireHandle]) -> list[WireHandle]:
    """Check that all handles resolve. Return them with the names of their plugins.

    Raises:
        HubError: One does not resolve: with the code of `plexus.resolve_handle`.
    """
    named = _named(host, handles)
    for handle in named:
        await _resolve(host, handle)
    return named


async def read(host: Host, handles: Iterable[WireHandle], limit: int) -> list[Attachment]:
    """Return the messages of all handles that have one.

    They are resolved one by one, because the data of one may be large.

    Args:
        host: The hub.
        handles: The handles.
        limit: The maximum number of characters of one attachment.

    Raises:
        HubError: As `check`.
        InvalidParams: All attachments together are too long.
    """
    attachments: list[Attachment] = []
    length = 0
    for handle in _named(host, handles):
        role, content = await context.reference(await _resolve(host, handle), limit)
        attachments.append(Attachment(handle, role, content))
        length += len(content)
        if length > MAX_CHARACTERS:
            raise InvalidParams(
                f"the attachments are longer than {MAX_CHARACTERS:,} characters",
                suggestion="Attach less, or decrease the setting attachment_chars",
            )
    return attachments


def put(
    tx: Tx, head: Place, handles: Iterable[WireHandle], now: int, *, side: bool = False
) -> Chain:
    """Add a chain of nodes for attachments below a head.

    Args:
        tx: The running transaction.
        head: The node above the first one.
        handles: The handles.
        now: The time in seconds.
        side: Whether the conversation continues beside the attachments.
    """
    end = head
    attached: list[Attached] = []
    for handle in handles:
        content = tree.external(tx, handle)
        is_side = side and not attached
        end = tree.append(tx, end, content, now, metadata=context.ATTACHMENT, side=is_side)
        attached.append(Attached(node_id=ids.text(end.id), handle=handle))
    return Chain(end, attached)


def _named(host: Host, handles: Iterable[WireHandle]) -> list[WireHandle]:
    named = [host.named(handle) for handle in handles]
    if any(len(str(handle)) > MAX_HANDLE for handle in named):
        raise InvalidParams(f"a handle in attach is longer than {MAX_HANDLE} characters")
    return named


async def _resolve(host: Host, handle: WireHandle) -> Resolved:
    """Return the data of an attachment.

    Raises:
        PermissionDenied: The calling agent may not resolve it.
        HubError: The error of resolving it, with a message that names the handle.
    """
    if not host.may_resolve(handle):
        # The model's answer would show it data that it was not granted.
        raise PermissionDenied(
            f"cannot attach {handle}: this session may not resolve it",
            suggestion="Grant the session resolve_handle",
        )
    try:
        return await host.resolve(handle)
    except HubError as error:
        failure = by_code(
            error.code,
            f"cannot attach {handle}: {error.message}",
            suggestion=error.suggestion,
            available=error.available,
        )
        failure.logged = error.logged
        raise failure from error
