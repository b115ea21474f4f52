"""The keys that a page keeps to connect again. No I/O.

A key is `ID.EXPIRY.MAC`, and the daemon stores none of them. The MAC depends on the secret in the
token file, so keys survive a restart, other daemons refuse them, and a new file revokes all.
"""

import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

ID_BYTES: Final = 16
KEY_SECONDS: Final = 30 * 24 * 3600
# Longer texts are not keys.
MAX_LENGTH: Final = 200
# Separates these MACs from other uses of the secret.
_LABEL: Final = "hubd page key 1:"


class Keys:
    """Creates and checks the keys of one hub."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret.encode()
        self._clock = clock

    def create(self) -> str:
        """Return a new key."""
        claim = f"{secrets.token_urlsafe(ID_BYTES)}.{int(self._clock()) + KEY_SECONDS}"
        return f"{claim}.{self._mac(claim)}"

    def is_valid(self, key: str) -> bool:
        """Return whether a key is one of this hub and has not expired."""
        if len(key) > MAX_LENGTH or not key.isascii():
            return False
        claim, _, mac = key.rpartition(".")
        if not hmac.compare_digest(mac, self._mac(claim)):
            return False
        # The MAC proves that `create` has written the claim.
        return self._clock() < int(claim.rpartition(".")[2])

    def _mac(self, claim: str) -> str:
        mac = hmac.digest(self._secret, f"{_LABEL}{claim}".encode(), "sha256")
        return urlsafe_b64encode(mac).decode().rstrip("=")
