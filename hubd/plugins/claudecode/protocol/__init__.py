"""The lines that the agent prints, as messages and updates. No I/O."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "messages")
