"""The one-time codes in the addresses that `hubd open` prints. No I/O."""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

CODE_BYTES: Final = 32
# Seconds in which a code can be used.
CODE_SECONDS: Final = 60
# Unused codes. A further one replaces the oldest.
MAX_CODES: Final = 32


class Codes:
    """The codes that can still be used."""

    def __init__(self, port: int, clock: Callable[[], float] = time.time) -> None:
        self._port = port
        self._clock = clock
        # The time at which each code expires, by its digest, the oldest first. A digest, so that
        # the time of a lookup reveals nothing about a code.
        self._expiry: dict[bytes, float] = {}

    def link(self) -> dict[str, Any]:
        """Return the event of `_page`: an address with a new code.

        The code is in the fragment, which browsers do not send to a server.
        """
        code = secrets.token_urlsafe(CODE_BYTES)
        expires_at = self._clock() + CODE_SECONDS
        if len(self._expiry) >= MAX_CODES:
            del self._expiry[next(iter(self._expiry))]
        self._expiry[_digest(code)] = expires_at
        url = f"http://127.0.0.1:{self._port}/#code={code}"
        return {"type": "page", "url": url, "expires_at": int(expires_at)}

    def redeem(self, code: str) -> bool:
        """Return whether a code is valid. It is not valid again."""
        expires_at = self._expiry.pop(_digest(code), None)
        return expires_at is not None and self._clock() < expires_at


def _digest(code: str) -> bytes:
    return sha256(code.encode(errors="surrogatepass")).digest()
