"""One event as JSON, checked against what its method or resolver has declared."""

from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from hubd.activation.event import Encoded
from hubd.errors import Internal


def encode(event: object, declared: tuple[type, ...], where: str, context: dict[str, Any]) -> bytes:
    """The JSON of an event.

    Args:
        event: What was yielded.
        declared: The types it may be of.
        where: Who has yielded it, for error messages.
        context: Tells its handles which activation they come from.

    Raises:
        Internal: It is of another type, or no JSON.
    """
    if not isinstance(event, declared):
        names = ", ".join(sorted(cls.__name__ for cls in declared))
        raise Internal(f"{where} yielded {type(event).__name__}; it declares {names}")
    if isinstance(event, Encoded):
        # Newlines mean nothing in JSON, but the end of a message to the Unix socket.
        return event.json.replace(b"\n", b" ").replace(b"\r", b" ")
    assert isinstance(event, BaseModel)
    try:
        return event.__pydantic_serializer__.to_json(event, context=context)
    except PydanticSerializationError as error:
        raise Internal(f"{where} yielded something that is no JSON: {error}") from error
