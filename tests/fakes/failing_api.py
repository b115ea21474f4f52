"""A Messages API that fails when an agent sends the results of its tools."""

from typing import Any

from tests.fakes.http import HttpRequest, Reply
from tests.fakes.messages_api import ERROR_TYPES, FakeMessagesApi


class ApiFailingAfterTools(FakeMessagesApi):
    """Fails in the second step of every turn that uses a tool, for as long as `status` is set."""

    def __init__(self) -> None:
        super().__init__()
        # The HTTP status it fails with, 0 for a connection that breaks off; None: it does not.
        self.status: int | None = None

    async def answer(self, request: HttpRequest, reply: Reply) -> None:
        """Fail if it is time to, else answer as the prompt wants."""
        if self.status is None or not _reports_results(request.body.get("messages", [])):
            await super().answer(request, reply)
            return
        self.requests.append(request)
        if not self.status:
            reply.cut()
        error = {"type": ERROR_TYPES[self.status], "message": f"fake {self.status}"}
        await reply.send(self.status, {"type": "error", "error": error})


def _reports_results(messages: list[dict[str, Any]]) -> bool:
    """Return whether the last message holds results of tools."""
    turns = [message for message in messages if message["role"] in ("user", "assistant")]
    if not turns or isinstance(turns[-1]["content"], str):
        return False
    return any(block["type"] == "tool_result" for block in turns[-1]["content"])
