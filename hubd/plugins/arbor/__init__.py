"""arbor: conversations as branching trees of text and handles."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "events", "import_export")
