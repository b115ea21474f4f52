"""The interface of providers, and the errors that they share."""

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, Self

from hubd.activation import (
    ExecutionError,
    HubError,
    NotFound,
    PermissionDenied,
    Timeout,
    Unavailable,
)
from hubd.errors import Overloaded
from hubd.plugins.cone.handles import Role
from hubd.wire.lazy_dataclass import dataclass

# The content type of a response without streaming.
JSON: Final = "application/json"

# Packages with readable error messages.
_READABLE: Final = ("anthropic", "openai", "httpx2")

# These packages log prompts, and addresses that may contain a password.
for _logger in (*_READABLE, "httpcore2"):
    logging.getLogger(_logger).setLevel(logging.WARNING)


@dataclass(frozen=True)
class Message:
    """One message to a model."""

    role: Role
    content: str


@dataclass(frozen=True)
class Ending:
    """The last piece of a complete answer."""

    model: str
    stop_reason: str | None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def read(
        cls, model: object, reason: object, input_tokens: object, output_tokens: object
    ) -> Self:
        """Read the values of a server. The SDKs don't check their types."""
        return cls(
            well_formed(str(model)),
            well_formed(str(reason)),
            _count(input_tokens),
            _count(output_tokens),
        )


class Provider(Protocol):
    """A provider with its key and address."""

    name: str

    def obstacle(self) -> HubError | None:
        """Return an error with a remedy if the provider can't answer, else None."""

    def answer(self, model: str, messages: Sequence[Message]) -> AsyncGenerator[str | Ending, None]:
        """Yield the pieces of the answer, then its ending.

        Raises:
            HubError: The provider failed, or the answer is incomplete.
        """

    async def models(self) -> list[str]:
        """Return the names of the models.

        Raises:
            HubError: The provider failed.
        """


@contextmanager
def failures(provider: str, secret: str | None, key_variable: str) -> Iterator[None]:
    """Turn every exception of an SDK in the block into an error for the caller.

    An SDK has its own classes for errors of a server. An invalid response raises any exception:
    from JSON, from UTF-8, a missing attribute, an assertion.
    """
    try:
        yield
    except HubError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, HubError):
            raise error.__cause__ from error
        raise failure(provider, error, secret, key_variable) from error


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined, and U+FFFD for single surrogates.

    Servers may split a pair, and JSON can escape single surrogates. Clients and the database refuse
    them.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def incomplete(provider: str) -> Unavailable:
    """Return the error for an incomplete answer."""
    return Unavailable(f"the answer of {provider} is incomplete", suggestion="Ask again")


def no_stream(provider: str, content_type: str) -> Unavailable:
    """Return the error for a server that answers in one piece although it was asked to stream."""
    return Unavailable(
        f"{provider}: the server ignores `stream: true`; it answers with {content_type[:100]} "
        "instead of a stream of events",
        suggestion="Check the base URL, or use a server that streams its answers",
    )


def failure(provider: str, error: Exception, secret: str | None, key_variable: str) -> HubError:
    """Return the error for the caller that an exception of an SDK means."""
    text = well_formed(_message_of(error))
    if secret:
        text = text.replace(secret, "…")
    message = f"{provider}: {text}"
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:
        if status in (401, 403):
            return PermissionDenied(message, suggestion=f"Check the variable {key_variable}")
        if status == 404:
            return NotFound(message, suggestion="List the models with `synapse cone registry`")
        if status in (429, 529):
            return Overloaded(message)
        if status >= 500:
            return Unavailable(message)
        return ExecutionError(message, suggestion="The provider refuses this conversation")
    # The SDKs and their HTTP client have several classes with this name.
    if "Timeout" in type(error).__name__:
        return Timeout(message)
    return Unavailable(message)


def _message_of(error: Exception) -> str:
    """Return the message of an error without the JSON around it."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return str(inner["message"])
    if type(error).__module__.startswith(_READABLE):
        return str(error) or type(error).__name__
    return f"the request failed, or the response is invalid ({type(error).__name__}: {error})"


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None
