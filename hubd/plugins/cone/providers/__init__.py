"""Where answers come from: one file for each provider of language models."""
