"""The schemas of the built-in plugins, kept between runs: a process takes a second to build them.

The file is a cache of hubd itself, so hubd ignores it if its code has changed.
"""

import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from hubd.activation.schema_cache import SCHEMA_CACHE

ROOT: Final = Path(__file__).parent.parent
# Files that are slow to make or to download. They are kept between runs.
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hubd-tests")
# Every checkout has its own, because a daemon replaces the schemas of other code.
FILE: Final = CACHE / f"schemas-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:16]}.json"


@cache
def open_cache() -> None:
    """Read the file in this process. Plugins that are imported later build no schemas."""
    SCHEMA_CACHE.open(FILE)


@cache
def build() -> None:
    """Import the built-in plugins, build all their schemas, and write the file if it lacks some."""
    from hubd.plexus.describe import plugin_schema
    from hubd.plexus.discovery import BUILT_IN, Source
    from hubd.wire.handle import plugin_id

    open_cache()
    for target in BUILT_IN:
        plugin = Source(target, "built in").load()
        plugin_schema(plugin, plugin.namespace, plugin_id(plugin.namespace, "1"), {})
    SCHEMA_CACHE.save()


def bring(home: Path) -> None:
    """Give a new home the schemas, for a daemon that is not a fork."""
    build()
    copy_to(home)


def copy_to(home: Path) -> None:
    """Copy the file to a new home, if both can be used."""
    with suppress(OSError):
        schemas = FILE.read_bytes()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(home / "schemas.json", new, 0o600), "wb") as file:
            file.write(schemas)
