"""Trees of nodes: writing, reading, and references that keep them alive."""
