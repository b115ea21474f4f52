"""The grammar of handles: `plugin@version::method[:meta]*`.

This module does not know the plugins. The hub finds the owner of a handle and checks its meta
values.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_to_bytes
from uuid import NAMESPACE_OID, UUID, uuid5

from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.text import shorten

_NAME: Final = lazy_pattern(r"[A-Za-z0-9._-]+")
_HEAD: Final = lazy_pattern(r"([A-Za-z0-9._-]+)@([A-Za-z0-9._-]+)::([A-Za-z0-9._-]+)")
# Characters that are escaped in a meta value: the separator, the escape and control characters.
_UNSAFE: Final = lazy_pattern(r"[%:\x00-\x1f\x7f-\x9f]")
_CONTROL: Final = lazy_pattern(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE: Final = lazy_pattern("[\ud800-\udfff]")
_BAD_ESCAPE: Final = lazy_pattern(r"%(?![0-9A-Fa-f]{2})")
# The characters of an invalid handle that an error message repeats.
_QUOTED_LENGTH: Final = 80


class InvalidHandle(ValueError):
    """The text, or the object, is not a handle."""


@dataclass(frozen=True, slots=True)
class WireHandle:
    """A handle: four parts, not interpreted.

    `plugin` is a namespace path or a plugin id. Handles with equal parts are equal.
    """

    plugin: str
    version: str
    method: str
    meta: tuple[str, ...] = ()

    # The canonical text, if the handle was read from it.
    _canonical: str = field(default="", init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse parts that can't be written as text and read back."""
        head = (self.plugin, self.version, self.method)
        if not all(isinstance(part, str) for part in head) or not _is_head(*head):
            self._refuse_head()
        for value in self.meta:
            if not isinstance(value, str):
                raise InvalidHandle(f"a meta value is text, not {_quoted(value)}")
            if _SURROGATE.search(value):
                raise InvalidHandle("a meta value contains a lone surrogate, which is not text")

    def _refuse_head(self) -> None:
        for label in ("plugin", "version", "method"):
            value = getattr(self, label)
            if not isinstance(value, str) or not _NAME.fullmatch(value):
                raise InvalidHandle(
                    f"the {label} of a handle is letters, digits, '.', '_' and '-', "
                    f"not {_quoted(value)}"
                )

    def __str__(self) -> str:
        """Return the canonical text."""
        return self._canonical or write(self.plugin, self.version, self.method, self.meta)

    @property
    def major(self) -> str:
        """The major version, as written."""
        return self.version.partition(".")[0]

    @property
    def meta_text(self) -> str | None:
        """The meta values as text after the method; None without meta values."""
        return ":".join(map(_escape, self.meta)) if self.meta else None

    @property
    def plugin_id(self) -> UUID:
        """The id of the plugin; `plugin` may be a name or the id itself."""
        return _id_of(self.plugin, self.major)


def write(plugin: str, version: str, method: str, meta: Iterable[str]) -> str:
    """Return the canonical text of valid parts."""
    head = f"{plugin}@{version}::{method}"
    return ":".join((head, *map(_escape, meta)))


def is_name(text: str) -> bool:
    """Return whether a text can be the plugin, version or method of a handle."""
    return _NAME.fullmatch(text) is not None


@lru_cache(maxsize=1024)
def plugin_id(namespace: str, major: str | int) -> UUID:
    """Return the stable id of a plugin, the same for all minor versions and on every machine."""
    return uuid5(NAMESPACE_OID, f"{namespace}@{major}")


@lru_cache(maxsize=1024)
def _id_of(plugin: str, major: str) -> UUID:
    try:
        return UUID(plugin)
    except ValueError:
        return plugin_id(plugin, major)


# Few plugins with few handle types create very many handles.
@lru_cache(maxsize=4096)
def _is_head(plugin: str, version: str, method: str) -> bool:
    return all(map(is_name, (plugin, version, method)))


def parse(text: str) -> WireHandle:
    """Read a handle.

    Raises:
        InvalidHandle: The text does not match the grammar. The message names the mistake.
    """
    head = _HEAD.match(text)
    if head is None:
        raise InvalidHandle(f"{_quoted(text)} is not plugin@version::method[:meta]…")
    plugin, version, method = head.groups()
    rest = text[head.end() :]
    if rest and rest[0] != ":":
        raise InvalidHandle(f"{_quoted(text)}: unexpected {_quoted(rest[0])} after the method")
    values = rest[1:].split(":") if rest else []
    if rest.isascii() and rest.isprintable() and "%" not in rest:
        # The common case: all parts are valid as they are, and nothing needs an escape.
        return _unchecked(plugin, version, method, tuple(values), text)
    return WireHandle(plugin, version, method, tuple(map(_unescape, values)))


def _unchecked(
    plugin: str, version: str, method: str, meta: tuple[str, ...], text: str
) -> WireHandle:
    """Return the handle of parts that are valid. The checks take as long as the parsing."""
    handle = object.__new__(WireHandle)
    write_field = object.__setattr__
    write_field(handle, "plugin", plugin)
    write_field(handle, "version", version)
    write_field(handle, "method", method)
    write_field(handle, "meta", meta)
    write_field(handle, "_canonical", text)
    return handle


def from_json(value: Any) -> WireHandle:
    """Read a handle from a string or one of the object forms.

    Raises:
        InvalidHandle: The value has another form.
    """
    if isinstance(value, str):
        return parse(value)
    if not isinstance(value, dict):
        raise InvalidHandle(f"a handle is a string or an object, not {_quoted(value)}")
    if value.get("metadata") is not None:
        raise InvalidHandle(
            "a handle has no 'metadata'; store it with the node that holds the handle"
        )
    if "source" in value:
        identifier = value.get("identifier")
        if not isinstance(identifier, str):
            raise InvalidHandle("a handle with 'source' needs an 'identifier' string")
        # This older form has no method. All of its handles are chat messages.
        return WireHandle(
            value["source"], value.get("source_version", ""), "chat", tuple(identifier.split(":"))
        )
    plugin = value.get("plugin", value.get("plugin_id"))
    meta = value.get("meta", [])
    if plugin is None or "version" not in value or "method" not in value:
        raise InvalidHandle("a handle object has 'plugin' or 'plugin_id', 'version' and 'method'")
    if not isinstance(meta, list):
        raise InvalidHandle("the 'meta' of a handle object is an array of strings")
    return WireHandle(plugin, value["version"], value["method"], tuple(meta))


def _escape(value: str) -> str:
    if value.isascii() and value.isprintable() and "%" not in value and ":" not in value:
        return value  # The common case.
    return _UNSAFE.sub(lambda match: _percent(match[0]), value)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def _unescape(value: str) -> str:
    if _CONTROL.search(value):
        raise InvalidHandle(f"{_quoted(value)} contains a control character; write it as %XX")
    if "%" not in value:
        return value
    if _BAD_ESCAPE.search(value):
        raise InvalidHandle(f"{_quoted(value)} contains a '%' without two hex digits after it")
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeError:
        raise InvalidHandle(f"the escapes in {_quoted(value)} are not UTF-8") from None


def _quoted(value: object) -> str:
    return shorten(repr(value), _QUOTED_LENGTH)
