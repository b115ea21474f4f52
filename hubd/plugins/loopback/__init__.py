"""loopback: decide the tool calls that an agent may not make by itself."""
