"""A person at a terminal: blocking calls at the daemon's socket, beside a browser."""

from pathlib import Path
from typing import Any

from hubd.wire import client as wire_client
from tests.fakes.agent_process import NOWHERE, agent_environment
from tests.support import PATIENCE_SECONDS, Daemon

Event = dict[str, Any]


class Terminal:
    """Starts chats in a directory, and reads their ends."""

    def __init__(self, daemon: Daemon, directory: Path, api_url: str = NOWHERE) -> None:
        self.daemon = daemon
        self.cwd = directory / "project"
        self.cwd.mkdir()
        self.environment = agent_environment(directory / "agent", api_url)
        self._context = {
            "cwd": str(self.cwd),
            "env": self.environment,
        }

    def all(self, method: str, /, **params: Any) -> list[Event]:
        """Return the events of a call, which must not fail."""
        sent = {"method": method, "params": params, "context": self._context}
        items = wire_client.call(
            self.daemon.paths.socket, "plexus.call", sent, timeout_seconds=PATIENCE_SECONDS
        )
        events = []
        for item in items:
            assert item["type"] != "error", item
            if item["type"] == "data":
                events.append(item["content"])
        return events

    def one(self, method: str, /, **params: Any) -> Event:
        """Return the only event of a call."""
        [event] = self.all(method, **params)
        return event

    def begin(self, name: str, *directives: str, **options: Any) -> None:
        """Start a chat of the offline agent in the background."""
        prompt = "\n".join(directives)
        self.one(
            "claudecode.chat_async", name=name, prompt=prompt, **{"model": "offline", **options}
        )

    def chat(self, name: str, *directives: str, **options: Any) -> None:
        """Chat with the offline agent until its answer is complete."""
        self.begin(name, *directives, **options)
        self.wait_for(name)

    def wait_for(self, name: str) -> list[Event]:
        """Wait for the end of the newest chat of a session, and return its events."""
        return [
            event["event"] for event in self.all("claudecode.follow", name=name) if "event" in event
        ]

    def head(self, name: str) -> Event:
        """Return the tree and the node of a session's head."""
        head: Event = self.one("claudecode.get", name=name)["session"]["head"]
        return head

    def delete_sessions(self) -> None:
        """End all chats and delete all sessions."""
        pages = self.all("claudecode.list")
        for session in [session for page in pages for session in page["sessions"]]:
            if session["status"] in ("queued", "running", "awaiting_permission"):
                self.one("claudecode.cancel", name=session["name"])
            self.one("claudecode.delete", name=session["name"])
