"""Exact copies of files, with handles."""
