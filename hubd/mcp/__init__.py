"""The MCP server: the methods of the hub as tools, resources and prompts."""
