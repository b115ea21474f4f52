"""Paths of tool calls and of patterns: the only part of the rules that reads the file system."""

import os.path
import unicodedata

from hubd.plugins.loopback.rules import globs
from hubd.wire.lazy_dataclass import dataclass


@dataclass(frozen=True)
class CallPath:
    """The path of a tool call: as it was written, and with all symlinks resolved."""

    # Absolute, without `..`.
    written: str
    # None if it can't be resolved with certainty.
    resolved: str | None


def call_path(value: str, cwd: str) -> CallPath:
    """Return the path of a tool call in a directory."""
    text = value.strip()
    if text == "~" or text.startswith("~/"):
        text = _home() + text[1:]
    written = os.path.normpath(os.path.join(cwd, text))  # noqa: PTH118
    is_clear = value == value.strip() and value.isprintable() and value[:1] not in ("", "~")
    if not is_clear or not written.startswith("/"):
        return CallPath(written, None)
    # The kernel resolves a symlink before the `..` that follows it; many programs don't.
    real = _real(os.path.join(cwd, value))  # noqa: PTH118
    return CallPath(written, real if real == _real(written) else None)


def absolute(path: str, cwd: str) -> str:
    """Return a directory of a scope: absolute, `~` expanded, symlinks resolved."""
    text = _home() + path[1:] if path == "~" or path.startswith("~/") else path
    joined = os.path.join(cwd, text)  # noqa: PTH118
    return _real(joined) or os.path.normpath(joined)


def resolved_pattern(pattern: str) -> str | None:
    """Return a pattern with its directories resolved, up to the first wildcard.

    It is resolved once, when the rule is added, so a symlink that changes later can't widen it.

    Returns:
        None for a relative pattern.
    """
    expanded = expand_home(pattern)
    if not expanded.startswith("/"):
        return None
    parts = expanded.split("/")
    count = 0
    while count < len(parts) and globs.literal(parts[count]) is not None:
        count += 1
    directory = globs.literal("/".join(parts[:count])) or "/"
    real = _real(directory)
    if real is None:
        return expanded
    return "/".join([globs.escape(real).rstrip("/"), *parts[count:]]) or "/"


def expand_home(pattern: str) -> str:
    """Return a pattern with the user's home instead of `~`."""
    if pattern != "~" and not pattern.startswith("~/"):
        return pattern
    return globs.escape(_home()) + pattern[1:]


def covers(resolved: str | None, pattern: str, path: CallPath, directory: str | None) -> bool:
    """Return whether the pattern of an allow rule covers a path.

    Args:
        resolved: The resolved pattern; None if it is relative.
        pattern: The pattern as it was written. A relative one is below `directory`.
        path: The path of the call.
        directory: The resolved directory of the session.
    """
    if path.resolved is None:
        return False
    if resolved is not None:
        return globs.matches(resolved, path.resolved)
    if pattern.startswith(("/", "~")) or not directory:
        return False
    return globs.matches(
        f"{globs.escape(directory.rstrip('/'))}/{pattern.removeprefix('./')}", path.resolved
    )


def touches(resolved: str | None, pattern: str, path: CallPath) -> bool:
    """Return whether the pattern of a deny or ask rule matches a path in any of its forms.

    A relative pattern matches at the end of a path. Letter case does not matter.
    """
    written = _folded(expand_home(pattern))
    forms = {written}
    if resolved is not None:
        forms.add(_folded(resolved))
    if not written.startswith("/"):
        forms.add(f"*/{written.removeprefix('./')}")
    # `DIR/*` covers the directory itself, and a path covers all paths below it.
    forms |= {form.removesuffix("/*") for form in forms if form.endswith("/*")}
    forms |= {f"{form}/*" for form in forms}
    texts = {_folded(path.written)} | ({_folded(path.resolved)} if path.resolved else set())
    return any(globs.matches(form, text) for form in forms for text in texts)


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is a directory or below it."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def real_directory(path: str) -> str | None:
    """Return a directory with all symlinks resolved; None if it is not known."""
    return _real(path) if path.startswith("/") else None


def _home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111


def _real(path: str) -> str | None:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())
