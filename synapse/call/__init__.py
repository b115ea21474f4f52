"""One call of a method: its items, questions, chat and exit status."""
