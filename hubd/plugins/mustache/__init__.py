"""mustache: templates, kept by name and filled."""

from typing import TYPE_CHECKING

from hubd.activation.lazy_module import lazy_module

if not TYPE_CHECKING:
    events = lazy_module("hubd.plugins.mustache.events")
