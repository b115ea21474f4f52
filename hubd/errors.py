"""The errors of the hub, with their codes on the wire.

Inside the hub an error is an exception. A client receives guidance, an error item and `done`;
only `plexus/dispatch.py` converts one to the other. Match the class or `code`, never the text.

    HubError
    ├── InvalidMethod           invalid_method
    ├── InvalidParams           invalid_params
    ├── HandleInvalid           handle_invalid
    ├── Ambiguous               ambiguous
    ├── ActivationNotFound      activation_not_found
    ├── MethodNotFound          method_not_found
    ├── NotFound                not_found
    ├── HandleTargetMissing     handle_target_missing
    ├── CursorExpired           cursor_expired
    ├── PermissionDenied        permission_denied
    ├── Unauthenticated         unauthenticated
    ├── Unavailable             unavailable
    │   ├── DatabaseUnusable    the file is corrupt or foreign, or its disk is full
    │   └── StartupFailed       the daemon cannot start
    ├── Overloaded              overloaded
    ├── Timeout                 timeout
    ├── Conflict                conflict
    │   └── AlreadyRunning      another daemon owns this home
    ├── VersionUnsupported      version_unsupported
    │   └── DatabaseNewer       a newer hubd wrote this database
    ├── HandleNotSupported      handle_not_supported
    ├── ExecutionError          execution_error
    ├── Cancelled               cancelled
    └── Internal                internal
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from hubd.wire.item import EXIT_CODES
from hubd.wire.text import shorten


class HubError(Exception):
    """An error for the caller: a message, a code and a suggestion."""

    code: ClassVar[str] = "internal"
    # Whether the same call may succeed later.
    recoverable: ClassVar[bool] = False
    # The default suggestion.
    advice: ClassVar[str] = "Read the daemon's log: hubd logs"
    # The method of the nested call that failed; empty if the call itself failed.
    nested_in: str = ""
    # Whether the log has this error already.
    logged: bool = False

    def __init__(
        self, message: str, *, suggestion: str | None = None, available: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion if suggestion is not None else self.advice
        self.available = list(available)

    @property
    def points_to_log(self) -> bool:
        """Whether the suggestion names the log, which then must contain the error."""
        return self.suggestion in (HubError.advice, ExecutionError.advice)

    @property
    def exit_code(self) -> int:
        """The exit status of a command that ends with this error."""
        return EXIT_CODES[self.code]


class InvalidMethod(HubError):
    """The text is not a method path."""

    code = "invalid_method"
    advice = "Write namespace.method, for example echo.once"


class InvalidParams(HubError):
    """The params do not match the method's schema."""

    code = "invalid_params"
    advice = "The schema of the namespace lists the parameters of this method"


class HandleInvalid(HubError):
    """The text is not a handle, or its meta values do not match its type."""

    code = "handle_invalid"
    advice = "Write plugin@version::method[:meta]…; escape '%' and ':' in a value"


class Ambiguous(HubError):
    """A name, or a part of an id, matches several rows."""

    code = "ambiguous"
    advice = "Give more digits of the id"


class ActivationNotFound(HubError):
    """The hub has no such namespace."""

    code = "activation_not_found"
    advice = "The hub's method 'activations' lists the namespaces"


class MethodNotFound(HubError):
    """The namespace has no such method."""

    code = "method_not_found"
    advice = "The schema of the namespace lists its methods"


class NotFound(HubError):
    """The object does not exist. If a resolver raises it, it becomes `handle_target_missing`."""

    code = "not_found"
    advice = "Check the name or id"


class HandleTargetMissing(HubError):
    """The handle is valid, but its data was removed."""

    code = "handle_target_missing"
    advice = "The data of this handle was removed; get a new handle"


class CursorExpired(HubError):
    """Retention removed the position."""

    code = "cursor_expired"
    advice = "Start again from the oldest remaining event"


class PermissionDenied(HubError):
    """The caller may not do this."""

    code = "permission_denied"
    advice = "Use a token or a connection that has this permission"


class Unauthenticated(HubError):
    """The caller sent no valid token."""

    code = "unauthenticated"
    advice = "Send the token of the token file as 'Authorization: Bearer …'"


class Unavailable(HubError):
    """A resource that the call needs is not available now."""

    code = "unavailable"
    recoverable = True
    advice = "Try again later, or find the cause with: hubd doctor"


class DatabaseUnusable(Unavailable):
    """The database file is corrupt or foreign, or its disk is full."""

    advice = "Check the file: hubd check"


class StartupFailed(Unavailable):
    """The daemon cannot start. `status` is the exit status of its process, if it had one."""

    advice = "Find the cause with: hubd doctor"

    def __init__(self, message: str, *, status: int | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self._status = status

    @property
    def exit_code(self) -> int:
        """The exit status of the process, if it had one."""
        return self._status or super().exit_code


class Overloaded(HubError):
    """A limit on concurrent work is reached."""

    code = "overloaded"
    recoverable = True
    advice = "Wait for running calls to end, then try again"


class Timeout(HubError):
    """An operation exceeded its time limit."""

    code = "timeout"
    recoverable = True
    advice = "Try again, or allow more time"


class Conflict(HubError):
    """The current state does not allow this change."""

    code = "conflict"
    advice = "Read the current state, then try again"


class AlreadyRunning(Conflict):
    """Another daemon owns this home."""

    advice = "Use it, or stop it first: hubd stop"


class VersionUnsupported(HubError):
    """Another major version created this."""

    code = "version_unsupported"
    advice = "Use the version that created it"


class DatabaseNewer(VersionUnsupported):
    """A newer hubd wrote this database."""

    advice = "Install that version or newer, or use another home"


class HandleNotSupported(HubError):
    """The plugin has no such handle type."""

    code = "handle_not_supported"
    advice = "The plugin's schema lists its handle types"


class ExecutionError(HubError):
    """The method ran and failed."""

    code = "execution_error"
    advice = "The method failed; its details are in the daemon's log: hubd logs"


class Cancelled(HubError):
    """The caller cancelled the call, or the daemon stopped."""

    code = "cancelled"
    advice = "Call again to start over"


class Internal(HubError):
    """A defect in the hub or in a plugin."""

    code = "internal"


# The longest reason in a report. The log has the whole text.
MAX_REASON: Final = 500


def reason_of(error: BaseException) -> str:
    """Return the message of an exception, on one line."""
    if isinstance(error, HubError):
        return error.message
    if isinstance(error, BaseExceptionGroup):
        # The text of the group only counts its members.
        return "; ".join(map(reason_of, error.exceptions))
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return shorten(reason, MAX_REASON)


def from_items(error: Mapping[str, Any], guidance: Mapping[str, Any] | None) -> HubError:
    """Return the exception for an error item and the guidance item before it."""
    if guidance is None or guidance.get("error_type") != error["code"]:
        return by_code(error["code"], error["message"])
    return by_code(
        error["code"],
        error["message"],
        suggestion=guidance.get("suggestion"),
        available=guidance.get("available") or (),
    )


def by_code(code: str, message: str, **details: Any) -> HubError:
    """Return the exception for an error code."""
    return _BY_CODE.get(code, Internal)(message, **details)


_BY_CODE: dict[str, type[HubError]] = {cls.code: cls for cls in HubError.__subclasses__()}
