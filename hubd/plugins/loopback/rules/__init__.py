"""Rules that decide a tool call without asking: pure logic, except for resolving paths."""
