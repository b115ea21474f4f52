"""The secret that lets clients in over TCP: made once, kept in a file only the user can read."""

import os
import secrets
from pathlib import Path
from typing import Final

from hubd.errors import StartupFailed

# 256 bits, as text.
TOKEN_BYTES: Final = 32
MIN_LENGTH: Final = 16


def load_or_create(path: Path) -> str:
    """The token of this hub.

    Raises:
        StartupFailed: The file cannot be read or written, or holds no token.
    """
    try:
        if not path.exists():
            _create(path)
        text = path.read_text("ascii").strip()
        # The target of a link is not ours to change; `hubd doctor` reports its mode.
        if path.stat().st_mode & 0o077 and not path.is_symlink():
            path.chmod(0o600)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise StartupFailed(
            f"the token file {path} cannot be used: {reason}",
            suggestion="Remove it; the next start makes a new one",
        ) from error
    if len(text) < MIN_LENGTH or not text.isprintable() or " " in text:
        raise StartupFailed(
            f"the token file {path} holds no token",
            suggestion="Remove it; the next start makes a new one",
        )
    return text


def _create(path: Path) -> None:
    """Write the whole file before it gets its name: nobody ever reads half a token."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # Buffered, so that all of it is written or an error says that it was not.
            file.write(secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
