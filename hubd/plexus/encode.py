"""Events as JSON, checked against the types that their method or resolver declares."""

from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from hubd.activation.event import Encoded
from hubd.errors import Internal


def encode(event: object, declared: tuple[type, ...], where: str, context: dict[str, Any]) -> bytes:
    """Return the JSON of an event.

    Args:
        event: The event that a plugin yielded.
        declared: The types of events that the method or resolver declares.
        where: The method or resolver, for error messages.
        context: The serialization context, which names the owner of new handles.

    Raises:
        Internal: The event has another type, or can't be written as JSON.
    """
    if not isinstance(event, declared):
        names = ", ".join(sorted(cls.__name__ for cls in declared))
        raise Internal(f"{where} yielded {type(event).__name__}; it declares {names}")
    if isinstance(event, Encoded):
        return event.json
    # Only models can be declared. Checking this takes longer than the rest of this function.
    model = cast(BaseModel, event)
    try:
        return model.__pydantic_serializer__.to_json(model, context=context)
    except PydanticSerializationError as error:
        raise Internal(f"{where} yielded an event that is not JSON: {error}") from error
