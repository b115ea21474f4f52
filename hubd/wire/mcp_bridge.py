"""What `hubd mcp` and the daemon say to each other besides the MCP messages that they carry."""

# From the bridge, as a line: the client has said all it has to say, and answers are still wanted.
# From the daemon, as its last byte: everything was answered. No JSON holds this byte.
# Whoever hangs up without it has died.
END = b"\x04"
# From the daemon, before the last it has to say: it does not serve this client. What follows is
# the error, as JSON; the bridge tells the user, as the client was told by a message before.
REFUSED = b"\x15"
