"""Exact copies of files, with handles."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "comparing", "events", "pages", "reading", "text_check", "writing")
