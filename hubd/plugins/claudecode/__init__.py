"""claudecode: run the `claude` program, and record each chat as a stream and a tree."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(
    __name__,
    "chat_events",
    "chat_request",
    "events",
    "native",
    "options",
    "queue",
    "resume",
)
