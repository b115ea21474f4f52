"""The commands of `synapse self`, and the Typer application for all commands."""
