"""Large messages: parsed without garbage collection, and never encoded again to be validated.

Parsing holds the interpreter, so one client's message delays all other clients. `wire/limits.py`
bounds what a message may contain; this module keeps the time per element short. Two thirds of it
would be garbage collection, which finds nothing in fresh JSON.
"""

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic_core import from_json

from hubd.wire.jsonrpc import TooLarge
from hubd.wire.limits import LARGE_BYTES, MAX_DEPTH, RPC_COUNTS, Counts, excess

# Longer than an ordinary call takes.
PAUSE_SECONDS: Final = 0.005

# A key of an object, or the index into an array with the array's length.
Step = str | tuple[int, int]


def parse(message: bytes, limits: Counts = RPC_COUNTS) -> Any:
    """Parse one message. Nesting deeper than 200, lone surrogates and NaN are refused.

    Args:
        message: The message.
        limits: How much it may contain if it is large.

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


def without_contents(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params with empty arrays and objects in place of those that they have."""
    return {
        name: type(value)() if isinstance(value, list | dict) else value
        for name, value in params.items()
    }


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


@dataclass(frozen=True)
class Source:
    """The JSON text of a large message, and the path in it to the params of a call."""

    text: bytes
    path: tuple[Step, ...]
    # The names of the params and their number, if they are an array.
    names: tuple[str, ...] = ()
    length: int = 0

    def below(self, name: str) -> "Source":
        """Return the source of one of the params, which is an object itself."""
        step: Step = (self.names.index(name), self.length) if self.names else name
        return replace(self, path=(*self.path, step), names=(), length=0)

    def validate(self, model: type[BaseModel]) -> BaseModel:
        """Read the params as a model, strictly.

        Raises:
            ValidationError: They do not fit. Its locations begin with the path.
        """
        with collection_paused():
            value = _adapter(model, self.path).validator.validate_json(self.text, strict=True)
        for step in self.path:
            value = value.below if isinstance(step, str) else value[step[0]]
        assert isinstance(value, model)
        return value


@lru_cache(maxsize=64)
def _adapter(model: type[BaseModel], path: tuple[Step, ...]) -> TypeAdapter[Any]:
    """Return a validator of whole messages that keeps only the part at a path."""
    kind: Any = model
    for step in reversed(path):
        if isinstance(step, str):
            field = (kind, Field(validation_alias=step))
            kind = create_model("Message", __config__=ConfigDict(extra="ignore"), below=field)
        else:
            before, length = step
            others = (Any,) * (length - before - 1)
            kind = tuple[*(Any,) * before, kind, *others]  # type: ignore[misc]
    return TypeAdapter(kind)
