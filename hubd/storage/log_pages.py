"""The number of pages in the write-ahead log of an open database.

SQLite has no function for it that Python offers. Its file format has a documented place: bytes 16
to 19 of the shared-memory file are the number of the last valid page of the log.
"""

import os
import sys
from pathlib import Path
from typing import Final

_PLACE: Final = 16
_BYTES: Final = 4


class LogPages:
    """Reads the number.

    Close it after all connections of this process, because closing a file of SQLite drops the
    locks that the process holds on it.
    """

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            OSError: No transaction has run yet, so SQLite has not created the file.
        """
        self._descriptor = os.open(f"{path}-shm", os.O_RDONLY | os.O_CLOEXEC)

    def count(self) -> int:
        """Return the number of pages since the log was last started from its beginning."""
        return int.from_bytes(os.pread(self._descriptor, _BYTES, _PLACE), sys.byteorder)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
