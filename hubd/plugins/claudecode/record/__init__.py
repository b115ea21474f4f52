"""The record of chats: write nodes and events, follow them, and read them back as a context."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(
    __name__,
    "context",
    "conversation_message",
    "event_pages",
    "followers",
    "message_import",
    "mirror",
)
