"""The cache of a hub's schema: one file per hub, replaced in one step.

A small index of the namespaces comes first, then each method and each namespace by itself. So a
call reads only the namespace and the method that it needs. The format is `marshal`, which costs a
third of JSON. The file can be deleted at any time.
"""

import marshal
import os
import sys

from synapse.errors import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubd.wire.schema import MethodSchema, PluginSchema

MAGIC = b"synapse cache 5\n"
# The size of the three numbers after the magic: the length of the index, the length of the
# methods, and the checksum of the index.
_NUMBER_BYTES = 8
# The largest prime below 2**30: Python divides by it in one pass over a long number.
_CHECKSUM_PRIME = 1_073_741_789


class DamagedCache(CommandError):
    """A part of the file has the wrong checksum."""

    def __init__(self) -> None:
        super().__init__(
            "the schema cache is damaged", hint="Delete it: synapse self cache --clear"
        )


class Cache:
    """The schema of a hub at the time when the hub had this hash."""

    def __init__(self, file: int, index: "dict[str, Any]", start: int) -> None:
        # Open until the object is deleted, because another process may replace the file.
        self._file = file
        # The offset, length and checksum of each namespace.
        self._places: dict[str, tuple[int, int, int]] = index["namespaces"]
        # The namespaces that were read so far.
        self._namespaces: dict[str, dict[str, Any]] = {}
        # The offset of the first entry after the index.
        self._start = start
        self.hash: str = index["hash"]
        self.root: str = index["root"]
        self.version: str = index["version"]

    def has_namespace(self, path: str) -> bool:
        """Return whether the hub has a namespace."""
        return path in self._places and path != ""

    def children(self, path: str) -> list[str]:
        """Return the names of a namespace's children; "" is the root."""
        children: list[str] = self._entry(path or self.root)["children"]
        return children

    def methods(self, path: str) -> list[str]:
        """Return the methods that a namespace lists, in the hub's order."""
        entries = self._entry(path)["methods"]
        return [name for name, (description, *_) in entries.items() if description is not None]

    def has_method(self, path: str, name: str) -> bool:
        """Return whether a namespace has a method, listed or not."""
        return path in self._places and name in self._entry(path)["methods"]

    def describe(self, path: str) -> str:
        """Return the description of a namespace, one line."""
        description: str = self._entry(path)["description"]
        return description

    def describe_method(self, path: str, name: str) -> str:
        """Return the description of a method, one line."""
        description: str = self._entry(path)["methods"][name][0] or ""
        return description

    def weights(self, path: str) -> dict[str, int]:
        """Return the weights of a namespace's methods, for those that have one."""
        weights: dict[str, int] = self._entry(path)["weights"]
        return weights

    def method(self, path: str, name: str) -> "MethodSchema":
        """Return the schema of a method."""
        schema: MethodSchema = self._read(*self._entry(path)["methods"][name][1:])
        return schema

    def namespace(self, path: str) -> "PluginSchema":
        """Return the schema of a namespace with an empty list of methods."""
        schema: PluginSchema = self._read(*self._entry(path)["rest"])
        return {**schema, "methods": []}

    def whole(self, path: str) -> "PluginSchema":
        """Return the schema of a namespace with its methods."""
        methods = [self.method(path, name) for name in self.methods(path)]
        return {**self.namespace(path), "methods": methods}

    def paths(self) -> list[str]:
        """Return the paths of all namespaces."""
        return list(self._places)

    def _entry(self, path: str) -> "dict[str, Any]":
        """Return the descriptions and places of a namespace."""
        if path not in self._namespaces:
            self._namespaces[path] = self._read(*self._places[path])
        return self._namespaces[path]

    def _read(self, offset: int, length: int, checksum: int) -> "Any":
        blob = os.pread(self._file, length, self._start + offset)
        if _checksum(blob) != checksum:
            raise DamagedCache
        return marshal.loads(blob)

    def __del__(self) -> None:
        os.close(self._file)


def cache_path(directory: str, address: str = "") -> str:
    """Return the file for the local hub, or for a remote hub by its address."""
    name = "local"
    if address:
        from hashlib import sha256

        # The start of the address is for people; the digest keeps addresses apart.
        safe = "".join(char if char.isascii() and char.isalnum() else "_" for char in address)
        name = f"{safe[:80]}-{sha256(address.encode()).hexdigest()[:16]}"
    return os.path.join(directory, f"{name}.{sys.implementation.cache_tag}")


def _checksum(content: bytes) -> int:
    """Return a number that a damaged content does not have. `zlib` takes longer to import."""
    return int.from_bytes(content, "little") % _CHECKSUM_PRIME


def load(path: str) -> Cache | None:
    """Return the cache in a file; None if the file is missing or unreadable."""
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
    """Return the cache in an open file.

    Raises:
        ValueError: The file is not a cache, or incomplete.
    """
    head = os.read(file, len(MAGIC) + 3 * _NUMBER_BYTES)
    places = range(len(MAGIC), len(head), _NUMBER_BYTES)
    numbers = (int.from_bytes(head[place : place + _NUMBER_BYTES], "big") for place in places)
    size, rest, checksum = numbers
    start = len(head) + size
    if not head.startswith(MAGIC) or os.fstat(file).st_size != start + rest:
        raise ValueError("not a cache, or cut short")
    index = os.read(file, size)
    if _checksum(index) != checksum:
        raise ValueError("damaged")
    return Cache(file, marshal.loads(index), start)


def store(
    path: str,
    root: str,
    version: str,
    schemas: "dict[str, PluginSchema]",
    hub_hash: str | None = None,
) -> Cache:
    """Write a hub's schemas to a file.

    Args:
        path: The file.
        root: The name of the hub's root.
        version: The hub's version.
        schemas: The schemas by the paths of their namespaces.
        hub_hash: The hash that the hub's items carry; by default that of the root's schema.

    Raises:
        OSError: The file cannot be written.
    """
    blobs: list[bytes] = []
    position = 0

    def add(value: "Any") -> tuple[int, int, int]:
        nonlocal position
        blob = marshal.dumps(value)
        blobs.append(blob)
        place = (position, len(blob), _checksum(blob))
        position += len(blob)
        return place

    own = {entry["name"] for entry in schemas[root]["methods"]}
    # Every namespace has these methods, but only the root lists them.
    universal = [
        (entry["name"], *add(entry))
        for entry in schemas[root]["methods"]
        if entry["name"] in ("schema", "hash", "resolve_handle")
    ]
    namespaces: dict[str, tuple[int, int, int]] = {}
    for name, schema in schemas.items():
        methods: dict[str, Any] = {
            entry["name"]: (entry["description"], *add(entry)) for entry in schema["methods"]
        }
        resolves = bool(schema.get("children") or schema.get("handles"))
        for method, *place in universal:
            if method in own and (method != "resolve_handle" or resolves):
                methods.setdefault(method, (None, *place))
        described = {
            "description": schema["description"],
            "children": [child["namespace"] for child in schema.get("children", [])],
            "methods": methods,
            "weights": {
                entry["name"]: entry["annotations"]["weight"]
                for entry in schema["methods"]
                if isinstance(entry.get("annotations", {}).get("weight"), int)
            },
            "rest": add({key: value for key, value in schema.items() if key != "methods"}),
        }
        namespaces[name] = add(described)
    index = marshal.dumps(
        {
            "hash": hub_hash or schemas[root]["hash"],
            "root": root,
            "version": version,
            "namespaces": namespaces,
        }
    )
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(MAGIC)
        for number in (len(index), position, _checksum(index)):
            file.write(number.to_bytes(_NUMBER_BYTES, "big"))
        file.write(index + b"".join(blobs))
    os.replace(temporary, path)
    cache = load(path)
    assert cache is not None
    return cache
