"""Tokens, costs and budgets of sessions."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "budget", "events", "usage")
