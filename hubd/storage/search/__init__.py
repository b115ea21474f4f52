"""Full-text search: the documents of plugins, their index, and queries."""
