"""The methods of claudecode, one file for each group."""
