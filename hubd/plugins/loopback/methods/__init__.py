"""The methods of loopback, one file for each part."""
