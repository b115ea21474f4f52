"""Which plugins there are: built in, installed as entry points, and named on the command line.

Only finds and imports them; `lifecycle.py` brings them to life.
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
    "hubd.plugins.mustache.plugin:Mustache",
    "hubd.plugins.arbor.plugin:Arbor",
    "hubd.plugins.cone.plugin:Cone",
    "hubd.plugins.claudecode.plugin:ClaudeCode",
)
# Each lies in a file or a folder of its name.
BUILT_IN_NAMES: Final = frozenset(target.partition(":")[0].split(".")[2] for target in BUILT_IN)


@dataclass(frozen=True)
class Source:
    """A plugin that was found, not imported yet: `module:Class`, and where the name came from."""

    target: str
    found_in: str

    def __str__(self) -> str:
        """For reports about it."""
        return f"{self.target} ({self.found_in})"

    def load(self) -> Activation:
        """Import the class and make the activation.

        Raises:
            Exception: Whatever the plugin's own code raises while it is imported.
            TypeError: The target is no activation class.
        """
        module, separator, name = self.target.partition(":")
        if not (separator and module and name):
            raise TypeError(f"'{self.target}' is not module:Class")
        found: object = importlib.import_module(module)
        for attribute in name.split("."):
            found = getattr(found, attribute)
        if not (isinstance(found, type) and issubclass(found, Activation)):
            raise TypeError(
                f"'{self.target}' is not a class derived from hubd.activation.Activation"
            )
        return found()


def sources(named: Sequence[str] = ()) -> Iterator[Source]:
    """All plugins, in the order in which they are attached."""
    for target in BUILT_IN:
        yield Source(target, "built in")
    # Slow to import, and only the daemon needs it.
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        yield Source(point.value, f"entry point {point.name}")
    for target in named:
        yield Source(target, "--plugin")
