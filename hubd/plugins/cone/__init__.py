"""cone: conversations with language models, as branching trees."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "answer", "events")
