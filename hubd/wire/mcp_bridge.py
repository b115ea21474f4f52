"""The control bytes between `hubd mcp` and the daemon. JSON never contains them."""

# From the bridge, as a line: the client closed its input and still expects replies. From the
# daemon, as its last byte: all requests have replies. A peer that closes without it has crashed.
END = b"\x04"
# From the daemon: it refuses this client. The error follows as JSON, and the bridge prints it. The
# client has received an MCP error before.
REFUSED = b"\x15"
