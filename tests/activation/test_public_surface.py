"""The names of the plugin API. A change is a decision about its version."""

from pathlib import Path

import hubd.activation

SURFACE = [
    "API_VERSION",
    "Activation",
    "Actor",
    "Ambiguous",
    "AnyHandle",
    "Cancelled",
    "ChildProcess",
    "Client",
    "Conflict",
    "Context",
    "Document",
    "Encoded",
    "Event",
    "ExecutionError",
    "Finding",
    "Handle",
    "Host",
    "HubError",
    "InvalidParams",
    "McpRegistry",
    "NotFound",
    "Option",
    "Origin",
    "PermissionDenied",
    "Prefix",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "Reader",
    "Resolved",
    "SearchSource",
    "Style",
    "TemplateSource",
    "Timeout",
    "Tx",
    "Unavailable",
    "Unfinished",
    "WireHandle",
    "columns",
    "method",
    "resolver",
]


def test_the_plugin_api_is_exactly_these_names_in_order() -> None:
    assert hubd.activation.__all__ == SURFACE == sorted(SURFACE)


def test_the_options_of_resolver_are_exactly_these() -> None:
    assert hubd.activation.resolver.__kwdefaults__ == {"many": False}


def test_every_name_of_the_plugin_api_is_there() -> None:
    assert [name for name in SURFACE if not hasattr(hubd.activation, name)] == []


def test_type_checkers_read_the_types_of_the_package() -> None:
    assert Path(hubd.activation.__file__).parent.with_name("py.typed").is_file()
