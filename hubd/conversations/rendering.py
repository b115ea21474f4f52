"""The text of outputs, documents and binary data for a model, by their kind and their fields.

The output of a command (`command`, `exit_code`, `stdout`, `stderr`):

    [output, exit code 2, timed out, truncated: make test]
    ```
    the standard output
    ```
    [stderr]
    ```
    the standard error, if there is any
    ```

A document with a `path` or a `url`:

    [document, digest 0123456789ab: /home/ann/notes.txt]      [document, 2026-01-31: https://…]
    ```                                                       [title: …]
    its text                                                  ```
    ```                                                       …

Binary data: `[binary, image/png, 12,345 bytes: logo.png]`.

- The part of a label after the colon comes from outside. It is one line, so it can't look like
  another label.
- A fence is longer than every run of backticks in its content, so no content can close it.
- Content over the limit loses its middle, because errors are mostly at the end of an output and
  the subject of a document is at its beginning. A line in its place states the number of
  characters. Standard error gets at least half of the limit if it needs that.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.text import shorten

# Characters of a command, a path, an address or a title in a label.
LABEL_LENGTH: Final = 1000
DIGEST_LENGTH: Final = 12
# The status of a command that ended by itself; a label names any other.
COMPLETE: Final = "complete"
# The first HTTP status that a label names.
FIRST_ERROR: Final = 400

_BACKTICKS: Final = lazy_pattern("`+")
_LINE_BREAKS: Final = lazy_pattern("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROL: Final = lazy_pattern("[\x00-\x1f\x7f-\x9f]")


def render(kind: str, data: Mapping[str, Any], limit: int) -> str | None:
    """Return the text of resolved data; None if its kind or its fields have no rendering here.

    Args:
        kind: The kind of the data.
        data: The data.
        limit: The maximum number of characters of its content.
    """
    if kind == "output" and isinstance(data.get("command"), str) and "exit_code" in data:
        return _output(data, limit)
    if kind == "document" and (text := _first_text(data, "text", "content")) is not None:
        return _document(data, text, limit)
    if kind == "binary" and ("mime_type" in data or "size" in data):
        return _binary(data)
    return None


def cut(text: str, limit: int) -> str:
    """Return the text; without its middle if it is longer than the limit.

    The cuts are at line ends if there are any near them. The result is longer than the limit by
    the line that states the cut.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    start, end = text[: limit - half], text[len(text) - half :]
    if (line_end := start.rfind("\n", len(start) // 2)) >= 0:
        start = start[:line_end]
    if (line_end := end.find("\n", 0, len(end) // 2)) >= 0:
        end = end[line_end + 1 :]
    left_out = len(text) - len(start) - len(end)
    return f"{start}\n… cut: {left_out:,} of {len(text):,} characters left out\n{end}"


def fenced(text: str) -> str:
    """Return the text between fences that it can't close."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    line_end = "" if not text or text.endswith("\n") else "\n"
    return f"{fence}\n{text}{line_end}{fence}"


def _output(data: Mapping[str, Any], limit: int) -> str:
    code = data["exit_code"]
    features = ["output", "no exit code" if code is None else f"exit code {_one_line(code)}"]
    if (status := _state(data)) is not None:
        features.append(status)
    if data.get("truncated"):
        features.append("truncated")
    out = _first_text(data, "stdout") or ""
    error = _first_text(data, "stderr") or ""
    error_limit = max(limit // 2, limit - len(out))
    parts = [
        _label(features, data["command"]),
        fenced(cut(out, limit - min(len(error), error_limit))),
    ]
    if error:
        parts += ["[stderr]", fenced(cut(error, error_limit))]
    return "\n".join(parts)


def _document(data: Mapping[str, Any], text: str, limit: int) -> str:
    content = cut(text, limit)
    path, url = _first_text(data, "path"), _first_text(data, "final_url", "url")
    if path is None and url is None:
        return content
    features, title = ["document"], None
    if path is not None:
        if digest := _first_text(data, "digest"):
            features.append(f"digest {_short_digest(digest)}")
    else:
        if (day := _day(data.get("fetched_at"))) is not None:
            features.append(day)
        if isinstance(status := data.get("status"), int) and status >= FIRST_ERROR:
            features.append(f"status {status}")
        title = _first_text(data, "title")
    if data.get("truncated") or data.get("text_cut"):
        features.append("truncated")
    labels = [_label(features, path if path is not None else url)]
    labels += [f"[title: {_one_line(title)}]"] if title else []
    return "\n".join((*labels, fenced(content)))


def _binary(data: Mapping[str, Any]) -> str:
    features = ["binary"]
    if (mime_type := _first_text(data, "mime_type")) is not None:
        features.append(_one_line(mime_type))
    if isinstance(size := data.get("size"), int):
        features.append(f"{size:,} bytes")
    return _label(features, _first_text(data, "name", "path", "final_url", "url"))


def _state(data: Mapping[str, Any]) -> str | None:
    """Return the end of a command in words, if it did not end by itself."""
    if data.get("timed_out"):
        return "timed out"
    status = _first_text(data, "status")
    return None if status in (None, COMPLETE) else _one_line(status).replace("_", " ")


def _label(features: list[str], name: str | None) -> str:
    """Return the line above a content."""
    return f"[{', '.join(features)}{'' if name is None else f': {_one_line(name)}'}]"


def _one_line(value: object) -> str:
    """Return the start of a text in one line without control characters."""
    text = shorten(str(value), LABEL_LENGTH)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _LINE_BREAKS.sub("↵", text))


def _first_text(data: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these fields that is a text."""
    return next((data[name] for name in names if isinstance(data.get(name), str)), None)


def _short_digest(digest: str) -> str:
    """Return the first digits of a digest, without the name of its algorithm."""
    return _one_line(digest.rpartition(":")[2][:DIGEST_LENGTH])


def _day(fetched_at: object) -> str | None:
    """Return the date of a time in Unix seconds, in UTC."""
    if not isinstance(fetched_at, int):
        return None
    try:
        return datetime.fromtimestamp(fetched_at, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return None
