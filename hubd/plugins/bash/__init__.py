"""bash: commands, with their output as it comes and as a record behind a handle."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "events", "execution")
