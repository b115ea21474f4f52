"""For plugins that keep conversations in trees."""
