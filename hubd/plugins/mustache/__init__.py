"""mustache: templates, kept by name and filled."""
