"""mustache: templates, kept by name and filled."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "events")
