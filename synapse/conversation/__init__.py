"""A conversation at a prompt: an interactive method that is called once for each line."""
