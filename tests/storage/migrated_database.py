"""A new database with the tables of the built-in plugins, kept between runs.

Migrations take half of the time in which a hub with all plugins starts, and the tests start
thousands of hubs. The file is named after the texts of the migrations, and a hub applies those
that are missing.
"""

import asyncio
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hubd.plexus.discovery import BUILT_IN, Source
from hubd.storage.database import Database
from hubd.storage.tables import HUB_MIGRATIONS
from tests.schema_file import CACHE


def provide(path: Path) -> None:
    """Write the database to a path in an existing directory, unless there is a file."""
    content = _content()
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with suppress(OSError), os.fdopen(os.open(path, new, 0o600), "wb") as file:
        file.write(content)


@cache
def _content() -> bytes:
    steps = {"hub": HUB_MIGRATIONS}
    for target in BUILT_IN:
        plugin = Source(target, "built in").load()
        steps[plugin.namespace] = plugin.migrations
    digest = hashlib.sha256(repr(steps).encode()).hexdigest()[:16]
    kept = CACHE / f"migrated-{digest}.db"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=CACHE) as directory:
            path = Path(directory, "hub.db")
            # In a thread, because the caller's event loop may be running.
            with ThreadPoolExecutor(1) as executor:
                executor.submit(asyncio.run, _migrate(path, steps)).result()
            # Another process may have been faster.
            path.rename(kept)
    return kept.read_bytes()


async def _migrate(path: Path, steps: dict[str, tuple[str, ...]]) -> None:
    async with Database(path) as database:
        for owner, migrations in steps.items():
            await database.migrate(owner, migrations)
