"""The hub: its address, the connection to it, and the cache of its schema."""
