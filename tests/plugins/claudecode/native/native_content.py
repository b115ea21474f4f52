"""Content for the tests of session files: recorded files, entries, messages, blocks."""

import json
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from hubd.plugins.claudecode.native import NativeHistory, NativeMessage
from hubd.plugins.claudecode.native.entries import read_lines

Block = dict[str, Any]
Entry = dict[str, Any]

# Files that claude 2.1.325 has written, without the contents of its prompts and tool schemas.
RECORDED: Final = Path(__file__).parent

SESSION: Final = "11111111-2222-4333-8444-555555555555"
MODEL: Final = "claude-opus-5-5"

# A picture of one pixel.
PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}
THOUGHT: Final = {"type": "thinking", "thinking": "hm", "signature": "ZmFrZSBzaWduYXR1cmU="}


def text(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def call(key: str) -> Block:
    """A call of a tool."""
    return {"type": "tool_use", "id": f"toolu_{key}", "name": "Bash", "input": {"command": key}}


def result(key: str, content: object = "out") -> Block:
    """Return the result of a call."""
    return {"type": "tool_result", "tool_use_id": f"toolu_{key}", "content": content}


def user(*content: Block, **more: Any) -> NativeMessage:
    """A message of the user."""
    return NativeMessage(role="user", content=list(content), **more)


def assistant(*content: Block, **more: Any) -> NativeMessage:
    """A message of the assistant."""
    return NativeMessage(role="assistant", content=list(content), **{"model": MODEL, **more})


def entry(uuid: str, parent: str | None, content: list[Block] | str, **more: Any) -> Entry:
    """A line of a file: of the user, or of the assistant if it is given a message's `id`."""
    role = "assistant" if "id" in more else "user"
    message = {"role": role, "content": content}
    if role == "assistant":
        message |= {"id": more.pop("id"), "model": MODEL}
    fields = {"isSidechain": False, "timestamp": "2026-01-01T00:00:00.000Z", "sessionId": SESSION}
    return {"parentUuid": parent, "type": role, "message": message, "uuid": uuid, **fields, **more}


def attachment(uuid: str, parent: str | None) -> Entry:
    """A line that stands in the chain and says nothing."""
    attached = {"type": "date", "date": "2026-01-01"}
    fields = {"isSidechain": False, "timestamp": "2026-01-01T00:00:00.000Z", "sessionId": SESSION}
    return {
        "parentUuid": parent,
        "type": "attachment",
        "attachment": attached,
        "uuid": uuid,
        **fields,
    }


def mark(uuid: str | None, **more: Any) -> Entry:
    """The line with which claude says where it stands."""
    return {"type": "last-prompt", "leafUuid": uuid, "sessionId": SESSION, **more}


def encoded(*lines: Entry) -> bytes:
    """The lines as a file has them."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def history_of(*lines: Entry) -> NativeHistory:
    """The lines as they are read."""
    return read_lines(encoded(*lines).splitlines(keepends=True))


# JSON as deep as the input of a tool may be, with characters that are hard to write.
_TEXT: Final = st.text(max_size=12)
_JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_IDS: Final = st.integers(0, 5).map(str)
_SAID: Final = st.one_of(
    _TEXT.map(text),
    st.just(THOUGHT),
    st.builds(lambda key, given: {**call(key), "input": given}, _IDS, _JSON),
)
_ASKED: Final = st.one_of(_TEXT.map(text), st.just(IMAGE), st.builds(result, _IDS, _JSON))


@st.composite
def conversations(draw: st.DrawFn) -> list[NativeMessage]:
    """Messages with all their updates, as reading a file would give them."""
    messages: list[NativeMessage] = []
    for number in range(draw(st.integers(1, 6))):
        is_user = draw(st.booleans())
        content = draw(st.lists(_ASKED if is_user else _SAID, min_size=1, max_size=4))
        if is_user and messages and _is_results(content) and _is_results(messages[-1].content):
            # Reading would join the two.
            content.insert(0, text("and"))
        # Only the results of tools are several entries and yet one message of the user.
        most = 1 if is_user and not _is_results(content) else len(content)
        updates: dict[str, Any] = {
            "uuids": tuple(f"{number}-{part}" for part in range(draw(st.integers(1, most)))),
            "timestamp": draw(st.sampled_from(["2026-01-01T00:00:00.000Z", "2020-01-01"])),
            "parent_uuid": messages[-1].uuids[-1] if messages else None,
        }
        if is_user:
            messages.append(user(*content, **updates))
        else:
            updates |= {"message_id": f"msg_{number}", "is_api_error": draw(st.booleans())}
            messages.append(
                assistant(*content, model=draw(st.sampled_from([MODEL, None])), **updates)
            )
    return messages


def _is_results(content: list[Block]) -> bool:
    return all(block["type"] == "tool_result" for block in content)
