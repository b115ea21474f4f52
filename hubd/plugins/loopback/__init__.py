"""loopback: decide the tool calls that an agent may not make by itself."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "answering", "approval_events", "asking", "dialogue", "events", "rule_store")
