"""docs/mcp.md states the limits, resources and options of the code."""

import re
from pathlib import Path

from hubd.cli import main
from hubd.mcp.results import INLINE_BYTES
from hubd.mcp.server import MAX_LEGACY_SESSIONS
from hubd.mcp.spool import KEPT_SECONDS
from hubd.mcp.transports.http_server import MAX_CONNECTIONS
from hubd.mcp.transports.stdio import MAX_BRIDGES
from hubd.mcp.uris import TEMPLATES
from hubd.wire.limits import MAX_MESSAGE_MIB, MCP_COUNTS, MESSAGE_SECONDS

GUIDE = (Path(main.__code__.co_filename).parent.parent / "docs/mcp.md").read_text()


def limit(name: str) -> str:
    """Return the value in the table of limits."""
    match = re.search(rf"^\| {name} \| (.*?) \|$", GUIDE, re.MULTILINE)
    assert match is not None, f"the guide has no limit '{name}'"
    return match[1]


def test_the_guide_states_the_limits_of_the_code() -> None:
    assert limit("size of a message").startswith(f"{MAX_MESSAGE_MIB} MiB")
    assert limit("arrays and objects in a message") == f"{MCP_COUNTS.containers:,}"
    assert limit("values in a message") == f"{MCP_COUNTS.values:,}"
    assert limit("keys in a message") == f"{MCP_COUNTS.keys:,}"
    assert limit("time to send a message") == f"{MESSAGE_SECONDS:g} s"
    assert MAX_CONNECTIONS == MAX_BRIDGES
    assert limit("connections over HTTP, clients over stdio") == f"{MAX_CONNECTIONS} each"
    assert limit("HTTP sessions of older protocol versions").startswith(f"{MAX_LEGACY_SESSIONS};")
    assert f"above {INLINE_BYTES // 1024} KiB" in GUIDE
    assert KEPT_SECONDS == 3600
    assert "keeps them for an hour" in " ".join(GUIDE.split())


def test_the_guide_lists_the_resource_templates() -> None:
    for template in TEMPLATES:
        assert f"| `{template.uri_template.removesuffix('{?from}')}` |" in GUIDE
