"""The blocks of a message, as a model's API has them: their texts and images. No I/O."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

# Characters of an image's base64 text.
MAX_IMAGE: Final = 8 * 1024 * 1024
# The formats that are shown, by the first bytes of their files. SVG is not among them: it is a
# document with scripts and links.
_SIGNATURES: Final = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF8"),
    ("image/webp", b"RIFF"),
)
# Base64 characters that hold the first bytes of a file.
_START: Final = 16


class Image(NamedTuple):
    """An image that is safe to show: its type by its first bytes, and its base64 text."""

    mime_type: str
    data: str


def text_of(block: Mapping[str, Any]) -> str:
    """Return the text of a block of text or thinking, also of one that was cut off."""
    return str(block.get("thinking") or block.get("text") or "")


def result_parts(block: Mapping[str, Any]) -> Iterator[str | Mapping[str, Any]]:
    """Yield the content of a tool result: its texts, and its other parts as blocks."""
    content = block.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield part["text"]
            elif isinstance(part, dict):
                yield part
            else:
                yield part if isinstance(part, str) else to_json(part).decode()
    elif content is not None:
        yield to_json(content).decode()


def image(block: Mapping[str, Any]) -> Image | None:
    """Return the image of a block; None if it is not a complete image of a known format."""
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(data, str) or not 0 < len(data) <= MAX_IMAGE:
        return None
    try:
        start = base64.b64decode(data[:_START], validate=True)
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    for mime_type, signature in _SIGNATURES:
        if start.startswith(signature):
            return Image(mime_type, data)
    return None


def other_line(block: Mapping[str, Any]) -> str:
    """Return a block that is not text in one line, such as `[image, image/png, 12 KiB]`."""
    words = [str(block.get("type") or "block")]
    source = block.get("source")
    if isinstance(source, dict):
        if isinstance(source.get("media_type"), str):
            words.append(source["media_type"])
        if isinstance(source.get("data"), str):
            words.append(f"{len(source['data']) * 3 // 4 // 1024 + 1} KiB")
        if isinstance(source.get("url"), str):
            words.append(source["url"])
    return f"[{', '.join(words)}]"
