"""The lines that the agent prints, as messages and updates. No I/O."""
