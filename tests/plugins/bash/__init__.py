"""The plugin bash."""
