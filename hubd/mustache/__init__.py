"""The bounded Mustache engine: templates to text."""

from typing import Final

# Characters of a template, for callers that accept templates from clients.
MAX_TEMPLATE: Final = 256 * 1024
