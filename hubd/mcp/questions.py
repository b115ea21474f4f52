"""A method's question to its caller as an MCP elicitation, and the answer back. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from mcp_types import ElicitRequestFormParams, ElicitResult

from hubd.mcp.results import printable

# The only field of every form.
FIELD: Final = "value"


def form_of(question: Mapping[str, Any], problem: str = "") -> ElicitRequestFormParams | None:
    """Return the form for a question; None if only the plugin's own client understands it.

    Args:
        question: The question in the hub's format.
        problem: The problem with the last answer.
    """
    kind = question["type"]
    if kind == "confirm":
        field: dict[str, Any] = {"type": "boolean"}
    elif kind == "prompt":
        field = {"type": "string"}
        if "placeholder" in question:
            field["description"] = printable(question["placeholder"])
    elif kind == "select":
        choices = [
            {"const": option["value"], "title": _title(option)} for option in question["options"]
        ]
        if question.get("multiSelect"):
            field = {"type": "array", "items": {"anyOf": choices}}
        else:
            field = {"type": "string", "oneOf": choices}
    else:
        return None
    if "default" in question:
        default = question["default"]
        field["default"] = printable(default) if isinstance(default, str) else default
    message = f"{question['message']} ({problem})" if problem else question["message"]
    return ElicitRequestFormParams(
        message=printable(message),
        requested_schema={"type": "object", "properties": {FIELD: field}, "required": [FIELD]},
    )


def answer_of(question: Mapping[str, Any], result: ElicitResult) -> dict[str, Any]:
    """Return the answer to a form in the hub's format."""
    if result.action != "accept":
        return {"type": "cancelled"}
    value = (result.content or {}).get(FIELD)
    if question["type"] == "confirm":
        return {"type": "confirmed", "value": value}
    if question["type"] == "prompt":
        return {"type": "text", "value": value}
    return {"type": "selected", "values": value if isinstance(value, list) else [value]}


def _title(option: Mapping[str, Any]) -> str:
    description = option.get("description")
    return printable(f"{option['label']} – {description}" if description else option["label"])
