"""bash: commands, with their output as it comes and as a record behind a handle."""

from typing import TYPE_CHECKING

from hubd.activation.lazy_module import lazy_module

if not TYPE_CHECKING:
    events = lazy_module("hubd.plugins.bash.events")
