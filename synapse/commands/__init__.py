"""`synapse self …`: what belongs to synapse and not to any hub."""
