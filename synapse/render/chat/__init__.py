"""A chat at a terminal: Markdown while it streams, tools, thinking, approvals and the end."""
