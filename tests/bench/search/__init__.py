"""The benchmark of the search: `python -m tests.bench.search [EVENTS [FOLDER]]`."""
