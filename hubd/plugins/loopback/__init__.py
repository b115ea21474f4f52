"""loopback: decide the tool calls that an agent may not make by itself."""

from typing import TYPE_CHECKING

from hubd.activation.lazy_module import lazy_module

if not TYPE_CHECKING:
    approval_events = lazy_module("hubd.plugins.loopback.approval_events")
    events = lazy_module("hubd.plugins.loopback.events")
