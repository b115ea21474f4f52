"""What `hubd mcp` and the daemon say to each other besides the MCP messages that they carry."""

# From the bridge, as a line: the client has said all it has to say, and answers are still wanted.
# From the daemon, as its last byte: everything was answered. No JSON holds this byte.
# Whoever hangs up without it has died.
END = b"\x04"
