"""What is remembered of a hub: its whole schema, in one file that is replaced in one step.

A small index first, then every method by itself, so that a call reads only what it needs, however
many methods the hub has. The file is in the user's own directory and in `marshal`'s format, which
is a third of the cost of JSON; it can be deleted at any time.
"""

from __future__ import annotations

import marshal
import os
import sys
from zlib import crc32

from synapse.errors import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"synapse cache 3\n"
# Then three numbers of this size: the length of the index, of all that follows it, and a checksum.
_NUMBER_BYTES = 8


class DamagedCache(CommandError):
    """The file is not what was written; it is worth nothing."""

    def __init__(self) -> None:
        super().__init__("the schema cache is damaged", hint="synapse self cache --clear")


class Cache:
    """A hub's schema, as it was when the hash was this one."""

    def __init__(self, file: int, index: dict[str, Any], start: int) -> None:
        # Open as long as we are: the name may stand for a newer file at any time.
        self._file = file
        self._namespaces: dict[str, Any] = index["namespaces"]
        # Where the first method begins in the file.
        self._start = start
        self.hash: str = index["hash"]
        self.root: str = index["root"]
        self.version: str = index["version"]

    def has_namespace(self, path: str) -> bool:
        """Whether there is such a namespace."""
        return path in self._namespaces and path != ""

    def children(self, path: str) -> list[str]:
        """The namespaces below one, by one word each; "" and the root's name mean the root."""
        children: list[str] = self._namespaces[path or self.root]["children"]
        return children

    def methods(self, path: str) -> list[str]:
        """The methods that a namespace lists."""
        entries = self._namespaces[path]["methods"]
        return [name for name, (description, *_) in entries.items() if description is not None]

    def has_method(self, path: str, name: str) -> bool:
        """Whether a namespace answers a method, listed or not."""
        return path in self._namespaces and name in self._namespaces[path]["methods"]

    def describe(self, path: str) -> str:
        """One line about a namespace."""
        description: str = self._namespaces[path]["description"]
        return description

    def describe_method(self, path: str, name: str) -> str:
        """One line about a method."""
        description: str = self._namespaces[path]["methods"][name][0] or ""
        return description

    def method(self, path: str, name: str) -> dict[str, Any]:
        """The schema of one method."""
        return self._read(*self._namespaces[path]["methods"][name][1:])

    def namespace(self, path: str) -> dict[str, Any]:
        """The schema of a namespace without its methods."""
        return self._read(*self._namespaces[path]["rest"])

    def whole(self, path: str) -> dict[str, Any]:
        """The schema of a namespace, as the hub gave it."""
        methods = [self.method(path, name) for name in self.methods(path)]
        return {**self.namespace(path), "methods": methods}

    def paths(self) -> list[str]:
        """Every namespace there is."""
        return list(self._namespaces)

    def _read(self, offset: int, length: int, check: int) -> dict[str, Any]:
        blob = os.pread(self._file, length, self._start + offset)
        if crc32(blob) != check:
            raise DamagedCache
        schema: dict[str, Any] = marshal.loads(blob)
        return schema

    def __del__(self) -> None:
        os.close(self._file)


def cache_path(directory: str, hub: str = "") -> str:
    """The file for the local hub, or for a remote one by its address."""
    name = "local"
    if hub:
        from hashlib import sha256

        # To be told apart, and, as far as a file name may be long, to be recognised.
        safe = "".join(char if char.isascii() and char.isalnum() else "_" for char in hub)
        name = f"{safe[:80]}-{sha256(hub.encode()).hexdigest()[:16]}"
    return os.path.join(directory, f"{name}.{sys.implementation.cache_tag}")


def load(path: str) -> Cache | None:
    """What is remembered, or None: nothing, or nothing that can be read."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return _read_index(file)
    except (OSError, EOFError, ValueError, TypeError, KeyError):
        os.close(file)
        return None


def _read_index(file: int) -> Cache:
    """The cache in an open file.

    Raises:
        ValueError: It is none, or not all of it.
    """
    head = os.read(file, len(MAGIC) + 3 * _NUMBER_BYTES)
    places = range(len(MAGIC), len(head), _NUMBER_BYTES)
    numbers = (int.from_bytes(head[place : place + _NUMBER_BYTES], "big") for place in places)
    size, rest, check = numbers
    start = len(head) + size
    if not head.startswith(MAGIC) or os.fstat(file).st_size != start + rest:
        raise ValueError("not a cache, or cut short")
    index = os.read(file, size)
    if crc32(index) != check:
        raise ValueError("damaged")
    return Cache(file, marshal.loads(index), start)


def store(
    path: str,
    root: str,
    version: str,
    schemas: dict[str, dict[str, Any]],
    known_hash: str | None = None,
) -> Cache:
    """Remember a hub's schemas, given by namespace.

    Args:
        path: The file.
        root: The hub's name.
        version: The hub's version.
        schemas: The schema of every namespace.
        known_hash: The hash that the hub's items carry while its schema is this one; if absent,
            the hash in the root's schema.

    Raises:
        OSError: The cache cannot be written.
    """
    blobs: list[bytes] = []
    position = 0

    def add(value: Any) -> tuple[int, int, int]:
        nonlocal position
        blob = marshal.dumps(value)
        blobs.append(blob)
        place = (position, len(blob), crc32(blob))
        position += len(blob)
        return place

    own = {entry["name"] for entry in schemas[root]["methods"]}
    # What every namespace answers though only the root lists it.
    universal = [
        (entry["name"], *add(entry))
        for entry in schemas[root]["methods"]
        if entry["name"] in ("schema", "hash", "resolve_handle")
    ]
    namespaces: dict[str, Any] = {}
    for name, schema in schemas.items():
        methods: dict[str, Any] = {
            entry["name"]: (entry["description"], *add(entry)) for entry in schema["methods"]
        }
        resolves = bool(schema.get("children") or schema.get("handles"))
        for method, *place in universal:
            if method in own and (method != "resolve_handle" or resolves):
                methods.setdefault(method, (None, *place))
        namespaces[name] = {
            "description": schema["description"],
            "children": [child["namespace"] for child in schema.get("children", [])],
            "methods": methods,
            "rest": add({key: value for key, value in schema.items() if key != "methods"}),
        }
    index = marshal.dumps(
        {
            "hash": known_hash or schemas[root]["hash"],
            "root": root,
            "version": version,
            "namespaces": namespaces,
        }
    )
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(MAGIC)
        for number in (len(index), position, crc32(index)):
            file.write(number.to_bytes(_NUMBER_BYTES, "big"))
        file.write(index + b"".join(blobs))
    os.replace(temporary, path)
    found = load(path)
    assert found is not None
    return found
