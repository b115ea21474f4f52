"""The command line of the hub, generated from its schema."""
