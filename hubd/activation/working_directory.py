"""The directory in which a method starts a program."""

from pathlib import Path

from hubd.activation.host import Host
from hubd.errors import InvalidParams


def working_directory(host: Host, path: str | None, parameter: str = "working_dir") -> str:
    """Return the given directory, else the caller's, else the user's home.

    A relative path begins at the caller's directory.

    Args:
        host: The hub, which knows the caller.
        path: The directory of the call.
        parameter: The name of the parameter, for messages.

    Raises:
        InvalidParams: It is not a directory.
    """
    caller = Path(host.context.cwd or Path.home())
    suggestion = f"Choose another {parameter}"
    try:
        directory = caller / Path(path).expanduser() if path else caller
        if not directory.is_dir():
            raise InvalidParams(f"{directory} is not a directory", suggestion=suggestion)
        return str(directory.resolve())
    except (OSError, ValueError, RuntimeError) as error:
        # The path is too long or has a NUL, its links form a loop, or it names an unknown user.
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidParams(
            f"the working directory cannot be used: {reason}", suggestion=suggestion
        ) from None
