"""web: pages as they were when they were fetched."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "events")
