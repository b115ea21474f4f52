"""Conversations as documents: Markdown, JSON lines, or one HTML page."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "conversation", "document")
