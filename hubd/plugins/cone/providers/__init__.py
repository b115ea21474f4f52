"""The providers of language models, one file each."""
