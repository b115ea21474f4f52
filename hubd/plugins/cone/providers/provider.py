"""What all providers have in common. Knows none of them, and no cone."""

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, Self

from pydantic import BaseModel, Field

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

# The content type of an answer in one piece.
JSON: Final = "application/json"

# The errors of these packages say what has happened.
_SPEAKING: Final = ("anthropic", "openai", "httpx2")

# They log requests: addresses out of a caller's environment, perhaps with a password in them, and
# what was asked.
for _indiscreet in (*_SPEAKING, "httpcore2"):
    logging.getLogger(_indiscreet).setLevel(logging.WARNING)


class Settings(BaseModel, defer_build=True):
    """How cone works."""

    # The model of cones that name none.
    model: str = Field(default="offline", min_length=1)
    # How long an answer may be, for providers that want to know (Anthropic).
    max_tokens: int = Field(default=8192, ge=1)
    # How long an answer may take in all.
    answer_seconds: float = Field(default=600, gt=0)
    # How often a provider is asked again that was busy or did not answer.
    retries: int = Field(default=2, ge=0)
    # Where the providers are, if not where they usually are and no variable says so.
    anthropic_base_url: str | None = None
    openai_base_url: str | None = None


@dataclass(frozen=True)
class Message:
    """One message that a model is sent."""

    role: Role
    content: str


@dataclass(frozen=True)
class Ending:
    """How an answer ended; a provider's last word, and only if the answer is whole."""

    model: str
    stop_reason: str | None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def read(cls, model: object, reason: object, read: object, written: object) -> Self:
        """From what a server says, which the SDKs pass on whether or not it is of its type."""
        return cls(well_formed(str(model)), well_formed(str(reason)), _count(read), _count(written))


class Provider(Protocol):
    """A provider, with all it needs to know to be asked."""

    name: str

    def obstacle(self) -> HubError | None:
        """Why it cannot be asked, if it cannot; names the remedy."""

    def answer(self, model: str, messages: Sequence[Message]) -> AsyncGenerator[str | Ending, None]:
        """The answer in pieces, and at last its ending.

        Raises:
            HubError: There is no answer, or it broke off.
        """

    async def models(self) -> list[str]:
        """The names of its models, as it lists them.

        Raises:
            HubError: It does not say.
        """


@contextmanager
def failures(provider: str, secret: str | None, key_variable: str) -> Iterator[None]:
    """Whatever an SDK fails with in the block is an error for the caller.

    It has classes of its own for what a server refuses. What is no answer at all it stumbles
    over, in whichever way comes first: JSON, UTF-8, a missing attribute, an assertion.
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
    """The text with halves of characters joined, and U+FFFD for those that stay alone.

    JavaScript cuts texts between the halves, and JSON has escapes for them; neither a client nor
    the database takes them.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def broke_off(provider: str) -> Unavailable:
    """The error for an answer without an end."""
    return Unavailable(f"the answer of {provider} broke off", suggestion="Ask again")


def no_stream(provider: str, content_type: str) -> Unavailable:
    """Return the error for a server that answers in one piece although it was asked to stream."""
    return Unavailable(
        f"{provider}: the server ignores `stream: true`; it answers with {content_type[:100]} "
        "instead of a stream of events",
        suggestion="Check the base URL, or use a server that streams its answers",
    )


def failure(provider: str, error: Exception, secret: str | None, key_variable: str) -> HubError:
    """What an error of a provider's SDK, or of anything below it, means to a caller."""
    text = well_formed(_said(error))
    if secret:
        text = text.replace(secret, "…")
    message = f"{provider}: {text}"
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:
        if status in (401, 403):
            return PermissionDenied(message, suggestion=f"Check the variable {key_variable}")
        if status == 404:
            return NotFound(message, suggestion="cone.registry lists the models there are")
        if status in (429, 529):
            return Overloaded(message)
        if status >= 500:
            return Unavailable(message)
        return ExecutionError(message, suggestion="The provider does not take this conversation")
    # The SDKs and the HTTP client below them have several classes for this, all named so.
    if "Timeout" in type(error).__name__:
        return Timeout(message)
    return Unavailable(message)


def _said(error: Exception) -> str:
    """The sentence in an error, without the JSON around it."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return str(inner["message"])
    if type(error).__module__.startswith(_SPEAKING):
        return str(error) or type(error).__name__
    return f"cannot be asked, or its answer cannot be read ({type(error).__name__}: {error})"


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None
