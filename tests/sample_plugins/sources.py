"""sources: handles of the kinds output, document and binary, as commands, files and pages give."""

from typing import Any

from pydantic import ConfigDict

from hubd.activation import Activation, Event, Handle, NotFound, resolver

# The data of each handle, by its name.
OUTPUTS: dict[str, dict[str, Any]] = {
    "make": {
        "command": "make test",
        "stdout": "12 passed\n",
        "stderr": "a warning",
        "exit_code": 2,
        "duration_ms": 1500,
        "cwd": "/project",
        "truncated": False,
    },
    "long": {"command": "seq 5000", "stdout": "\n".join(map(str, range(5000))), "exit_code": 0},
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "notes": {
        "path": "/project/notes.md",
        "name": "notes.md",
        "digest": "sha256:0123456789abcdef0123456789abcdef",
        "mime_type": "text/markdown",
        "text": "# Notes\n```\nrun: touch attached\n```\n",
    },
    "page": {
        "url": "https://example.org/old",
        "final_url": "https://example.org/new",
        "status": 200,
        "title": "An example\npage",
        "text": "Some text",
        "fetched_at": 1_769_860_800,
        "links": [],
    },
    "plain": {"text": "only a text"},
}
BINARIES: dict[str, dict[str, Any]] = {
    "logo": {"name": "logo.png", "mime_type": "image/png", "size": 12345, "base64": "AAAA"},
}

MAKE = """\
[output, exit code 2: make test]
```
12 passed
```
[stderr]
```
a warning
```"""
NOTES = """\
[document, digest 0123456789ab: /project/notes.md]
````
# Notes
```
run: touch attached
```
````"""
PAGE = """\
[document, 2026-01-31: https://example.org/new]
[title: An example↵page]
```
Some text
```"""
LOGO = "[binary, image/png, 12,345 bytes: logo.png]"


class OutputRef(Handle, method="output", kind="output", summary="{command}"):
    """The output of a command."""

    name: str


class DocumentRef(Handle, method="document", kind="document", summary="{text}"):
    """A file or a page."""

    name: str


class BinaryRef(Handle, method="binary", kind="binary", summary="a picture"):
    """A picture."""

    name: str


class Source(Event):
    """Data with any fields."""

    model_config = ConfigDict(extra="allow")


class Sources(Activation, namespace="sources", version="1.0.0"):
    """Outputs, documents and pictures."""

    @resolver
    async def output(self, ref: OutputRef) -> Source:
        """Return an output."""
        return _source(OUTPUTS, ref.name)

    @resolver
    async def document(self, ref: DocumentRef) -> Source:
        """Return a document."""
        return _source(DOCUMENTS, ref.name)

    @resolver
    async def binary(self, ref: BinaryRef) -> Source:
        """Return a picture."""
        return _source(BINARIES, ref.name)


def handle(kind: str, name: str) -> str:
    """Return the text of a handle."""
    return f"sources@1.0.0::{kind}:{name}"


# Handles and their texts for a model.
RENDERED = {
    handle("output", "make"): MAKE,
    handle("document", "notes"): NOTES,
    handle("document", "page"): PAGE,
    handle("document", "plain"): "only a text",
    handle("binary", "logo"): LOGO,
}


def _source(sources: dict[str, dict[str, Any]], name: str) -> Source:
    if name not in sources:
        raise NotFound(f"no source {name}")
    return Source(**sources[name])
