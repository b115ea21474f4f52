"""bash: commands, with their output as it comes and as a record behind a handle."""
