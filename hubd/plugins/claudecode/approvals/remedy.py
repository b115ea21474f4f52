"""The advice at the end of a chat with a denied tool call. No I/O."""

from collections.abc import Mapping
from typing import Any


class Denials:
    """The denied tool calls of a chat that no person or agent has decided about."""

    def __init__(self) -> None:
        # Tools by their approvals, and the calls that were asked about.
        self._tools: dict[str, str] = {}
        self._asked: set[str] = set()
        # The advice without repetitions, in order.
        self._advice: dict[str, None] = {}

    def note(self, event: Mapping[str, Any]) -> None:
        """Note one durable event."""
        match event["type"]:
            case "awaiting_approval":
                self._tools[event["approval_id"]] = event["tool_name"]
                self._asked.add(event["tool_use_id"])
            case "approval_resolved" if not event["approved"]:
                tool = self._tools.get(event["approval_id"], "A tool")
                self._resolved(tool, event["by"].partition(":")[0])
            case "complete":
                for denial in (event.get("result") or {}).get("permission_denials") or ():
                    self._denied(denial)

    @property
    def advice(self) -> list[str]:
        """Return how to allow such calls."""
        return [*self._advice]

    def _resolved(self, tool: str, decider: str) -> None:
        if decider == "rule":
            self._advise(f"A rule denied {tool}. See: synapse loopback rules-list")
        elif decider == "deadline":
            self._advise(
                f"No answer about {tool} came in time. Allow it with --allowed-tools {tool}, or "
                f"with a rule: synapse loopback rules-add --effect allow --tool {tool}"
            )

    def _denied(self, denial: Any) -> None:
        if not isinstance(denial, dict) or denial.get("tool_use_id") in self._asked:
            return
        tool = denial.get("tool_name")
        if isinstance(tool, str):
            self._advise(
                f"{tool} was not allowed. Allow it with --allowed-tools {tool}, or let the hub ask "
                "with --loopback-enabled"
            )

    def _advise(self, text: str) -> None:
        self._advice.setdefault(text)
