"""Compare patterns with URLs part by part, so that a glob for a host can't match a path."""

import re
from urllib.parse import urlsplit

from hubd.plugins.loopback.rules import globs
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.lazy_pattern import lazy_pattern

_CLEAR = lazy_pattern(r"[!-\[\]^_a-z|~]+")
# Segments that a server or a client may resolve, and encoded separators.
_DOTS = lazy_pattern(r"(?:/|%2f|%5c)(?:\.|%2e){1,2}(?:/|%2f|%5c|\?|#|$)|%2f|%5c|%2e", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class CallUrl:
    """The URL of a tool call."""

    written: str
    # The scheme, the host and the rest; None if programs may read the URL differently.
    parts: tuple[str, str, str] | None


def call_url(value: str) -> CallUrl:
    """Return the URL of a tool call."""
    return CallUrl(value, _parts(value))


def covers(pattern: str, url: CallUrl) -> bool:
    """Return whether the pattern of an allow rule covers a URL."""
    if url.parts is None:
        return False
    if pattern == "*":
        return True
    wanted = _pattern_parts(pattern, scheme="https")
    return all(globs.matches(glob, text) for glob, text in zip(wanted, url.parts, strict=True))


def touches(pattern: str, url: CallUrl) -> bool:
    """Return whether the pattern of a deny or ask rule matches a URL, with any path below it."""
    if globs.loosely_matches(pattern, url.written):
        return True
    if url.parts is None:
        return False
    scheme, host, rest = _pattern_parts(pattern, scheme="*")
    name = url.parts[1].partition(":")[0]
    return (
        globs.loosely_matches(scheme, url.parts[0])
        and (globs.loosely_matches(host, url.parts[1]) or globs.loosely_matches(host, name))
        and (globs.loosely_matches(rest, url.parts[2]) or rest == "/")
    )


def _pattern_parts(pattern: str, *, scheme: str) -> tuple[str, str, str]:
    before, separator, after = pattern.partition("://")
    if not separator:
        before, after = scheme, pattern
    host, _, rest = after.partition("/")
    return before.lower(), host.lower(), f"/{rest}"


def _parts(value: str) -> tuple[str, str, str] | None:
    if not _CLEAR.fullmatch(value.lower()) or "\\" in value or _DOTS.search(value):
        return None
    try:
        split = urlsplit(value)
        port = split.port
    except ValueError:
        return None
    host = (split.hostname or "").lower()
    if split.scheme not in _PORTS or not host or "@" in split.netloc or host.endswith("."):
        return None
    if port is not None and port != _PORTS[split.scheme]:
        host = f"{host}:{port}"
    query = f"?{split.query}" if split.query else ""
    return split.scheme, host, (split.path or "/") + query
