"""The plugins to load: built in, installed as entry points, or named on the command line.

This module finds and imports them; `lifecycle.py` starts them.
"""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hubd.activation.base import Activation

ENTRY_POINT_GROUP: Final = "hubd.plugins"

BUILT_IN: Final[tuple[str, ...]] = (
    "hubd.plugins.echo:EchoPlugin",
    "hubd.plugins.health:HealthPlugin",
    "hubd.plugins.solar:Solar",
    "hubd.plugins.bash.plugin:Bash",
    "hubd.plugins.file.plugin:File",
    "hubd.plugins.web.plugin:Web",
    "hubd.plugins.mustache.plugin:Mustache",
    "hubd.plugins.arbor.plugin:Arbor",
    "hubd.plugins.cone.plugin:Cone",
    "hubd.plugins.claudecode.plugin:ClaudeCode",
    # Keeps its approvals in the tables of claudecode.
    "hubd.plugins.loopback.plugin:Loopback",
)
# Each plugin is a file or a folder of its name.
BUILT_IN_NAMES: Final = frozenset(target.partition(":")[0].split(".")[2] for target in BUILT_IN)


@dataclass(frozen=True)
class Source:
    """A plugin that is not imported yet: `module:Class`, and the origin of this name."""

    target: str
    found_in: str

    def __str__(self) -> str:
        """Return the target and the origin, for reports."""
        return f"{self.target} ({self.found_in})"

    def load(self) -> Activation:
        """Import the class and create the activation.

        Raises:
            Exception: An error of the plugin's own code.
            TypeError: The target is not a class derived from `Activation`.
        """
        module, separator, name = self.target.partition(":")
        if not (separator and module and name):
            raise TypeError(f"'{self.target}' is not module:Class")
        target: object = importlib.import_module(module)
        for attribute in name.split("."):
            target = getattr(target, attribute)
        if not (isinstance(target, type) and issubclass(target, Activation)):
            raise TypeError(
                f"'{self.target}' is not a class derived from hubd.activation.Activation"
            )
        return target()


def sources(named: Sequence[str] = ()) -> Iterator[Source]:
    """Yield all plugins in the order in which the hub attaches them."""
    for target in BUILT_IN:
        yield Source(target, "built in")
    # Imported here, because it is slow and only the daemon needs it.
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        # An author may run a plugin that is installed too.
        if point.value not in named:
            yield Source(point.value, f"entry point {point.name}")
    for target in named:
        yield Source(target, "--plugin")
