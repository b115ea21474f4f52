"""Rules that decide a tool call without asking: pure logic, except for resolving paths."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "decide", "globs", "paths", "patterns", "scopes", "subject", "words")
