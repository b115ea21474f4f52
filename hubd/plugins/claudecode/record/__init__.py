"""The record of chats: write nodes and events, follow them, and read them back as a context."""
