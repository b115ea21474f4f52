"""The files of the page, as they were when the first one was requested.

They are kept in memory, so an update of the package does not mix files of two versions.
"""

from functools import cache
from hashlib import sha256
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final, NamedTuple

# The path below which the files are served. `index.html` is also the root.
FOLDER: Final = "/page/"
INDEX: Final = "index.html"

CONTENT_TYPES: Final = MappingProxyType(
    {
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "svg": "image/svg+xml",
        "png": "image/png",
        "woff2": "font/woff2",
        "txt": "text/plain; charset=utf-8",
    }
)


class StaticFile(NamedTuple):
    """A file with its headers."""

    content: bytes
    content_type: str
    etag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return all files of the package by their paths. No other path is ever opened."""
    from importlib.resources import files

    by_path = dict(_below(files("hubd.page").joinpath("static"), FOLDER))
    return {"/": by_path[FOLDER + INDEX], **by_path}


def _below(folder: Traversable, path: str) -> list[tuple[str, StaticFile]]:
    entries: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            entries += _below(entry, f"{path}{entry.name}/")
        elif content_type := CONTENT_TYPES.get(entry.name.rpartition(".")[2]):
            content = entry.read_bytes()
            etag = f'"{sha256(content).hexdigest()[:32]}"'
            entries.append((path + entry.name, StaticFile(content, content_type, etag)))
    return entries
