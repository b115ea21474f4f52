"""SQLite, and nothing above it."""
