"""The working directory of an agent."""

from pathlib import Path

from hubd.activation import Host, InvalidParams


def working_directory(host: Host, path: str | None) -> str:
    """Return an agent's directory: the given one, else the caller's, else the user's home.

    Raises:
        InvalidParams: It is not a directory.
    """
    caller = Path(host.context.cwd or Path.home())
    try:
        directory = caller / Path(path).expanduser() if path else caller
        if not directory.is_dir():
            raise InvalidParams(
                f"{directory} is not a directory", suggestion="Choose another working_dir"
            )
        return str(directory.resolve())
    except (OSError, ValueError, RuntimeError) as error:
        # The path is too long or has a NUL, its links form a loop, or it names an unknown user.
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidParams(
            f"the working directory cannot be used: {reason}",
            suggestion="Choose another working_dir",
        ) from None
