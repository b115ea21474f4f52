"""How MCP clients connect: HTTP, stdio, and the bridge `hubd mcp`."""
