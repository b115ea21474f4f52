"""The plugin API is a list of names; changing it is a decision."""

import hubd.activation

SURFACE = [
    "Activation",
    "Ambiguous",
    "AnyHandle",
    "Cancelled",
    "Client",
    "Conflict",
    "Context",
    "Encoded",
    "Event",
    "ExecutionError",
    "Handle",
    "Host",
    "HubError",
    "InvalidParams",
    "NotFound",
    "Option",
    "Origin",
    "PermissionDenied",
    "Prefix",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "Resolved",
    "Timeout",
    "Unavailable",
    "method",
    "resolver",
]


def test_the_plugin_api_is_exactly_these_names_in_order() -> None:
    assert hubd.activation.__all__ == SURFACE == sorted(SURFACE)


def test_every_name_of_the_plugin_api_is_there() -> None:
    assert [name for name in SURFACE if not hasattr(hubd.activation, name)] == []
