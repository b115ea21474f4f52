"""The tree of activations: its nodes, their schemas, and the calls of their methods."""
