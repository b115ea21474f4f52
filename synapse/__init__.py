"""synapse: the command line that writes itself from the hub's schema."""
