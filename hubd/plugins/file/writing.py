"""Write the content of a snapshot to a file."""

import os
import secrets
from pathlib import Path
from typing import BinaryIO

from hubd.activation import Conflict, HubError
from hubd.plugins.file.reading import unreadable


class NewFile:
    """A file that gets its name when it is complete."""

    def __init__(self, path: str, mode: int, *, overwrite: bool) -> None:
        """Create the file beside its final place.

        Raises:
            Conflict: A file exists at the path, and `overwrite` is False.
            HubError: The directory cannot be written.
        """
        self._path = Path(path)
        self._mode = mode
        self._overwrite = overwrite
        if not overwrite and os.path.lexists(path):
            raise exists(path)
        self._temporary = self._path.with_name(f".{self._path.name[:200]}.{secrets.token_hex(4)}")
        try:
            self._file: BinaryIO = self._temporary.open("xb")
        except OSError as error:
            raise unreadable(str(self._path.parent), error) from None

    def write(self, chunk: bytes) -> None:
        """Add bytes.

        Raises:
            HubError: The disk is full or fails.
        """
        try:
            self._file.write(chunk)
        except OSError as error:
            raise unreadable(str(self._path), error) from None

    def finish(self) -> None:
        """Give the file its mode and its name. It is on disk afterwards.

        Raises:
            Conflict: Another program created a file at the path, and `overwrite` is False.
            HubError: The file cannot be written.
        """
        try:
            self._file.flush()
            os.fchmod(self._file.fileno(), self._mode)
            os.fsync(self._file.fileno())
            if self._overwrite:
                self._temporary.replace(self._path)
            else:
                # Fails if the path exists.
                self._path.hardlink_to(self._temporary)
        except FileExistsError:
            raise exists(str(self._path)) from None
        except OSError as error:
            raise unreadable(str(self._path), error) from None

    def close(self) -> None:
        """Close the file, and remove it if it has no name."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def exists(path: str) -> HubError:
    """Return the error for a file that is not overwritten."""
    return Conflict(f"{path} exists", suggestion="Choose another path, or set overwrite")
