"""Claude's own session files: find, list, read and write them. No hub and no database."""

from hubd.plugins.claudecode.native.conversations import (
    NativeConversation,
    NativeMessage,
    conversation,
    leaves,
)
from hubd.plugins.claudecode.native.entries import (
    NativeEntry,
    NativeHistory,
    NativeMark,
    read_history,
)
from hubd.plugins.claudecode.native.files import projects_directory, session_file
from hubd.plugins.claudecode.native.listing import NativeSession, list_sessions
from hubd.plugins.claudecode.native.restoring import restore_entries
from hubd.plugins.claudecode.native.writing import write_session

__all__ = [
    "NativeConversation",
    "NativeEntry",
    "NativeHistory",
    "NativeMark",
    "NativeMessage",
    "NativeSession",
    "conversation",
    "leaves",
    "list_sessions",
    "projects_directory",
    "read_history",
    "restore_entries",
    "session_file",
    "write_session",
]
