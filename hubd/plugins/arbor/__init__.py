"""arbor: conversations as branching trees of text and handles."""

from typing import TYPE_CHECKING

from hubd.activation.lazy_module import lazy_module

if not TYPE_CHECKING:
    events = lazy_module("hubd.plugins.arbor.events")
