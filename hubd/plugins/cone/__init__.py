"""cone: conversations with language models, as branching trees."""
