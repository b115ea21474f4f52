"""Tokens, costs and budgets of sessions."""
