"""The answers of the fake Messages API: directives in the prompt, parsed without I/O.

    SAY[text]            a text block
    THINK[text]          a thinking block with a signature
    RUN_BASH[command]    "I will run it." and a Bash call; the answer goes on after its result
    TOOLS[call, call]    several tool calls in one message, each {"name": …, "input": …} in JSON;
                         $APPROVAL is the id of the newest approval in a result so far
    STATUS[529 x2]       an HTTP error, that many times (without a number: always)
    CUT[text]            the first attempt breaks off after this text
    SLOW[seconds]        the answer is spread over this time
    HANG[]               the answer starts and never goes on

Blocks up to a tool call make one message; what follows the call is the answer to its result. When
nothing is left to say, the answer names the results. Brackets inside a directive must balance.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

SIGNATURE: Final = "ZmFrZSBzaWduYXR1cmU="

_DIRECTIVE: Final = re.compile(r"\b(SAY|THINK|RUN_BASH|TOOLS|STATUS|CUT|SLOW|HANG)\[")

# The id of an approval, as the hub's tools return it, perhaps in an escaped string.
_APPROVAL: Final = re.compile(r"""approvals.*?\bid\W+([0-9a-f]{8}-[0-9a-f-]{27})""", re.DOTALL)

# Texts that claude adds to user messages.
_NOT_A_PROMPT: Final = (
    "<system-reminder>",
    "[Request interrupted",
    "Continue from where you left off.",
)


@dataclass(frozen=True)
class Block:
    """One content block of an answer."""

    kind: str
    text: str = ""
    tool: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"toolu_{uuid4().hex[:24]}")

    def opening(self) -> dict[str, Any]:
        """The block as content_block_start has it."""
        if self.kind == "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        if self.kind == "tool_use":
            return {"type": "tool_use", "id": self.id, "name": self.tool, "input": {}}
        return {"type": "text", "text": ""}

    def whole(self) -> dict[str, Any]:
        """The block as a message that is not streamed has it."""
        if self.kind == "thinking":
            return {"type": "thinking", "thinking": self.text, "signature": SIGNATURE}
        if self.kind == "tool_use":
            return {"type": "tool_use", "id": self.id, "name": self.tool, "input": self.input}
        return {"type": "text", "text": self.text}

    def deltas(self, size: int) -> Iterator[dict[str, Any]]:
        """The block in pieces of `size` characters."""
        text = json.dumps(self.input) if self.kind == "tool_use" else self.text
        for piece in (text[start : start + size] for start in range(0, len(text), size)):
            if self.kind == "thinking":
                yield {"type": "thinking_delta", "thinking": piece}
            elif self.kind == "tool_use":
                yield {"type": "input_json_delta", "partial_json": piece}
            else:
                yield {"type": "text_delta", "text": piece}
        if self.kind == "thinking":
            yield {"type": "signature_delta", "signature": SIGNATURE}


@dataclass(frozen=True)
class Answer:
    """One message of the script, and how it is to be delivered."""

    prompt: str
    # How many messages of the script came before it.
    step: int
    blocks: list[Block]
    status: int | None = None
    status_times: float = 0
    cut: str | None = None
    slow: float = 0.0
    hang: bool = False
    input_tokens: int = 10

    @property
    def stop_reason(self) -> str:
        """Why the message ends."""
        return "tool_use" if any(block.kind == "tool_use" for block in self.blocks) else "end_turn"

    @property
    def output_tokens(self) -> int:
        """A number that depends on the answer, so that sums can be checked."""
        return 7 + len(self.blocks)


def answer_to(messages: list[dict[str, Any]]) -> Answer:
    """Return the next answer: the rest of the script in the last prompt."""
    position, prompt = _last_prompt(messages)
    later = messages[position + 1 :]
    step = sum(message["role"] == "assistant" for message in later)
    options: dict[str, Any] = {}
    script: list[list[Block]] = [[]]
    results = [_result(block) for message in later for block in _results(message)]
    for name, argument in _directives(_filled_in(prompt, results)):
        if script[-1] and script[-1][-1].kind == "tool_use":
            script.append([])
        if name == "STATUS":
            status, _, times = argument.partition(" x")
            options |= {"status": int(status), "status_times": float(times or "inf")}
        elif name == "CUT":
            options["cut"] = argument
        elif name == "SLOW":
            options["slow"] = float(argument)
        elif name == "HANG":
            options["hang"] = True
        else:
            script[-1] += _blocks(name, argument)
    blocks = script[step] if step < len(script) else []
    if not blocks:
        text = f"final answer; tool said: {'; '.join(results)}" if results else f"echo: {prompt}"
        blocks = [Block("text", text)]
    return Answer(prompt, step, blocks, **options)


def _filled_in(prompt: str, results: list[str]) -> str:
    approvals = _APPROVAL.findall(" ".join(results))
    return prompt.replace("$APPROVAL", approvals[-1]) if approvals else prompt


def _blocks(name: str, argument: str) -> list[Block]:
    if name == "THINK":
        return [Block("thinking", argument)]
    if name == "RUN_BASH":
        call = {"command": argument, "description": "test command"}
        return [Block("text", "I will run it."), Block("tool_use", tool="Bash", input=call)]
    if name == "TOOLS":
        calls = json.loads(f"[{argument}]")
        return [Block("tool_use", tool=call["name"], input=call["input"]) for call in calls]
    return [Block("text", argument)]


def _directives(prompt: str) -> Iterator[tuple[str, str]]:
    position = 0
    while match := _DIRECTIVE.search(prompt, position):
        depth, end = 1, match.end()
        while depth and end < len(prompt):
            depth += {"[": 1, "]": -1}.get(prompt[end], 0)
            end += 1
        yield match[1], prompt[match.end() : end - 1]
        position = end


def _last_prompt(messages: list[dict[str, Any]]) -> tuple[int, str]:
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message["role"] != "user":
            continue
        # The user's text comes after the results that claude reports.
        for block in reversed(_content(message)):
            if block["type"] == "tool_result":
                break
            if block["type"] == "text" and not block["text"].startswith(_NOT_A_PROMPT):
                return position, block["text"]
    return len(messages), ""


def _content(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    blocks: list[dict[str, Any]] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    return blocks


def _results(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in _content(message) if block["type"] == "tool_result"]


def _result(block: dict[str, Any]) -> str:
    content = block.get("content", "")
    if not isinstance(content, str):
        content = " ".join(part.get("text", "") for part in content)
    return f"ERR {content}" if block.get("is_error") else content
