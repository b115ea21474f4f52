"""claudecode: run the `claude` program, and record each chat as a stream and a tree."""

from typing import TYPE_CHECKING

from hubd.activation.lazy_module import lazy_module

if not TYPE_CHECKING:
    chat_events = lazy_module("hubd.plugins.claudecode.chat_events")
    events = lazy_module("hubd.plugins.claudecode.events")
