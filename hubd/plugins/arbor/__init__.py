"""arbor: conversations as branching trees of text and handles."""
