"""How the hub reads a plugin's classes: signatures, docstrings, groups of parameters."""
