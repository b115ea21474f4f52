"""The token of TCP clients: created once, in a file that only the user can read."""

import os
import secrets
from pathlib import Path
from typing import Final

from hubd.errors import StartupFailed

# 256 bits, as text.
TOKEN_BYTES: Final = 32
MIN_LENGTH: Final = 16


def load_or_create(path: Path) -> str:
    """Return the token of this hub; create it if necessary.

    Raises:
        StartupFailed: The file cannot be read or written, or does not contain a token.
    """
    try:
        if not path.exists():
            _create(path)
        text = path.read_text("ascii").strip()
        # The target of a link belongs to the user; `hubd doctor` reports its mode.
        if path.stat().st_mode & 0o077 and not path.is_symlink():
            path.chmod(0o600)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise StartupFailed(
            f"the token file {path} cannot be used: {reason}",
            suggestion="Remove it; the next start creates a new one",
        ) from error
    if len(text) < MIN_LENGTH or not text.isprintable() or " " in text:
        raise StartupFailed(
            f"the token file {path} does not contain a token",
            suggestion="Remove it; the next start creates a new one",
        )
    return text


def _create(path: Path) -> None:
    """Write a temporary file, then rename it, so that no reader sees half a token."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # Buffered, so that a short write raises an error.
            file.write(secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
