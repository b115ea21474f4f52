"""Bytes to calls and items to bytes. Knows no plugin and no SQL."""
