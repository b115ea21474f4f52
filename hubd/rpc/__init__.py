"""JSON-RPC over the Unix socket and the WebSocket: messages to calls, items to messages."""
