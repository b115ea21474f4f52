"""Every error of the hub and its wire code.

Inside, an error is an exception; outside, it is guidance, an error item and done. The mapping
is in plexus/dispatch.py and nowhere else. Match on the class or on `code`, never on the text.

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
    │   ├── DatabaseUnusable    the file is corrupt, not ours, or its disk is full
    │   └── StartupFailed       the daemon cannot run here
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

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from hubd.wire.item import EXIT_CODES


class HubError(Exception):
    """What a caller gets to see: one sentence, a code, and what to do about it."""

    code: ClassVar[str] = "internal"
    # Trying the same again later may work.
    recoverable: ClassVar[bool] = False
    # The suggestion when the raiser has none.
    advice: ClassVar[str] = "Look at the daemon's log: hubd logs"
    # The method of a nested call that ended with this error; empty if no nested call did.
    nested_in: str = ""
    # The log has this error already.
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
        """Whether the suggestion sends the reader to the log, which then must have the error."""
        return self.suggestion in (HubError.advice, ExecutionError.advice)

    @property
    def exit_code(self) -> int:
        """The exit status of a command that ends with this error."""
        return EXIT_CODES[self.code]


class InvalidMethod(HubError):
    """The method path is not a path."""

    code = "invalid_method"
    advice = "A method is called as namespace.method, for example echo.once"


class InvalidParams(HubError):
    """The params do not fit the method's schema."""

    code = "invalid_params"
    advice = "Ask the namespace's schema for the parameters of this method"


class HandleInvalid(HubError):
    """The text is not a handle, or its meta values do not fit its type."""

    code = "handle_invalid"
    advice = "A handle is plugin@version::method[:meta]…, with '%' and ':' in a value escaped"


class Ambiguous(HubError):
    """A prefix or name fits more than one thing."""

    code = "ambiguous"
    advice = "Give more of the id"


class ActivationNotFound(HubError):
    """No such namespace."""

    code = "activation_not_found"
    advice = "The hub's method 'activations' lists what there is"


class MethodNotFound(HubError):
    """The namespace has no such method."""

    code = "method_not_found"
    advice = "Ask the namespace's schema for its methods"


class NotFound(HubError):
    """What was asked for does not exist. Raised by a resolver it is `handle_target_missing`."""

    code = "not_found"
    advice = "Check the name or id"


class HandleTargetMissing(HubError):
    """The handle is fine, but what it pointed at is gone."""

    code = "handle_target_missing"
    advice = "The data behind this handle was removed; get a new handle"


class CursorExpired(HubError):
    """The position was removed by retention."""

    code = "cursor_expired"
    advice = "Start again from the oldest event that is left"


class PermissionDenied(HubError):
    """The caller may not do this."""

    code = "permission_denied"
    advice = "Ask somebody who may, or use another token"


class Unauthenticated(HubError):
    """The caller did not say who it is."""

    code = "unauthenticated"
    advice = "Send the token of the token file as 'Authorization: Bearer …'"


class Unavailable(HubError):
    """Something that the call needs is not there right now."""

    code = "unavailable"
    recoverable = True
    advice = "Try again later; hubd doctor shows what is missing"


class DatabaseUnusable(Unavailable):
    """The database file cannot be used: corrupt, not ours, or out of space."""

    advice = "Look at the file with hubd check"


class StartupFailed(Unavailable):
    """The daemon cannot run here. `status`: what the process that tried has exited with."""

    advice = "hubd doctor shows what is wrong"

    def __init__(self, message: str, *, status: int | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self._status = status

    @property
    def exit_code(self) -> int:
        """That of the process, where there was one."""
        return self._status or super().exit_code


class Overloaded(HubError):
    """A limit on concurrent work is reached."""

    code = "overloaded"
    recoverable = True
    advice = "Wait for running calls to end, then try again"


class Timeout(HubError):
    """Something took longer than it may."""

    code = "timeout"
    recoverable = True
    advice = "Try again, or allow more time"


class Conflict(HubError):
    """The state has changed, or somebody else was first."""

    code = "conflict"
    advice = "Look at the current state and decide again"


class AlreadyRunning(Conflict):
    """Another daemon owns this home."""

    advice = "Use it, or stop it first: hubd stop"


class VersionUnsupported(HubError):
    """Another major version made this."""

    code = "version_unsupported"
    advice = "Use the version that made it"


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
    advice = "The method itself failed; the daemon's log has the details: hubd logs"


class Cancelled(HubError):
    """The caller, or the daemon's end, stopped the call."""

    code = "cancelled"
    advice = "Call again to start over"


class Internal(HubError):
    """A defect in the hub or in a plugin."""

    code = "internal"


# A reason is one line of a report. Longer ones are in the log.
MAX_REASON: Final = 500


def reason_of(error: BaseException) -> str:
    """Return why something failed, in one line."""
    if isinstance(error, HubError):
        return error.message
    if isinstance(error, BaseExceptionGroup):
        # The group's own text only counts its members.
        return "; ".join(map(reason_of, error.exceptions))
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 1]}…"


def by_code(code: str, message: str, **details: Any) -> HubError:
    """The error that an error item stands for."""
    return _BY_CODE.get(code, Internal)(message, **details)


_BY_CODE: dict[str, type[HubError]] = {cls.code: cls for cls in HubError.__subclasses__()}
