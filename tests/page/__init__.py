"""Tests of the web page."""
