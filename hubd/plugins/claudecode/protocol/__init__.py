"""The lines that the agent prints, as messages and facts. No I/O."""
