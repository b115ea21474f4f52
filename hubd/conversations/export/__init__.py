"""Conversations as documents: Markdown, JSON lines, or one HTML page."""
