"""For plugins that keep conversations in trees."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "attachments", "context")
