"""A conversation as one HTML page: all branches, without scripts and without the network."""
