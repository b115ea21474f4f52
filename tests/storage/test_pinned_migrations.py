"""The text of released migrations never changes; databases in use have recorded its hash."""

import hashlib
from collections.abc import Sequence

import pytest

from hubd.plugins.bash.tables import MIGRATIONS as BASH
from hubd.plugins.claudecode.tables import MIGRATIONS as CLAUDECODE
from hubd.plugins.cone.tables import MIGRATIONS as CONE
from hubd.plugins.file.tables import MIGRATIONS as FILE
from hubd.plugins.loopback.tables import MIGRATIONS as LOOPBACK
from hubd.plugins.mustache.store import MIGRATIONS as MUSTACHE
from hubd.plugins.web.tables import MIGRATIONS as WEB
from hubd.storage.tables import HUB_MIGRATIONS

# The first 16 digits of the SHA-256 of each migration. A new migration adds a line.
PINNED: dict[str, tuple[Sequence[str], list[str]]] = {
    "hub": (
        HUB_MIGRATIONS,
        [
            "6a1c2cb057587380",
            "79e78f2d1c2af5af",
            "84c9194466911d30",
            "2eae84a735e14ec0",
            "798567a7105367c0",
            "ace01132c8c15cf9",
            "a6523d78095edac7",
            "3e356e8ceea44dc7",
        ],
    ),
    "bash": (BASH, ["50c770fc4ebb4f3f"]),
    "claudecode": (
        CLAUDECODE,
        [
            "481d99fdb7997e55",
            "bdb50190797178c4",
            "d63a46f69eb55d14",
            "ab32b6761c2cb896",
            "2264f48e513b5b88",
            "9944ac55d0c858b8",
            "47bfa8f9a6b14adb",
        ],
    ),
    "cone": (CONE, ["455f0f7737d8c7c8"]),
    "file": (FILE, ["6a826a4084e5b596"]),
    "loopback": (LOOPBACK, ["30558841683560e2"]),
    "mustache": (MUSTACHE, ["ebd8659e2209057c", "c75f9dc15c3f45c8"]),
    "web": (WEB, ["43785e34ac9f06f4"]),
}


@pytest.mark.parametrize("owner", PINNED)
def test_released_migrations_are_byte_identical(owner: str) -> None:
    steps, hashes = PINNED[owner]
    assert [hashlib.sha256(step.encode()).hexdigest()[:16] for step in steps] == hashes
