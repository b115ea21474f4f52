"""The version of the plugin API, and the check of the version that a plugin requires.

The major number changes when a plugin that works would stop working; the minor number when
something is added. docs/plugins.md states the promise.
"""

from typing import Final

from hubd.errors import VersionUnsupported
from hubd.wire.lazy_pattern import lazy_pattern

API_VERSION: Final = "1.0"

_VERSION: Final = lazy_pattern(r"([0-9]+)\.([0-9]+)")


def check_api_version(where: str, required: str, offered: str = API_VERSION) -> None:
    """Refuse a plugin that needs another version of the API.

    Args:
        where: The module and class, for the message.
        required: The oldest version that the plugin works with, such as "1.0".
        offered: The version of this hub.

    Raises:
        TypeError: The required version is not major.minor.
        VersionUnsupported: The hub has another major version, or an older minor version.
    """
    parsed = _VERSION.fullmatch(required) if isinstance(required, str) else None
    if parsed is None:
        raise TypeError(
            f"{where}: requires_api={required!r} must be major.minor, such as "
            f"requires_api='{API_VERSION}'"
        )
    major, minor = map(int, parsed.groups())
    our_major, our_minor = map(int, offered.split("."))
    if major != our_major or minor > our_minor:
        program = "hubd" if (major, minor) > (our_major, our_minor) else "version of the plugin"
        raise VersionUnsupported(
            f"{where} requires version {required} of the plugin API, and this hubd has {offered}",
            suggestion=f"Install a newer {program}",
        )
