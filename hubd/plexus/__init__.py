"""The tree of activations: its nodes, their schemas, and the calls of their methods."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "events")
