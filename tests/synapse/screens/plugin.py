"""A third-party plugin with a method for every view; its texts can be hostile."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel

from hubd.activation import Activation, Event, NotFound, Option, method

HOSTILE = (
    "\x1b[2J\x1b[H\x1b]0;title\x07\x1b]52;c;eA==\x07\x9b31m\x90q\x9c\x1b[?1049h\r\b\x00\x7f"
    "\u202eevil\u2066\u200b\ufeff\U000e0041e\u0301" + "\u0301" * 50 + "漢字👩\u200d💻"
)
ANSWER = """\
# Fixed

Done. The **bug** was in `add`: it *added* one too many.

- first, a longer line that has to be folded on a narrow terminal
- second

```python
def add(a, b):
    return a + b
```

| file   | why               |
|--------|-------------------|
| fix.py | the sum was wrong |

> See [the docs](https://example.org/add).
"""
DIFF = """\
Edit wants to change in session fix (~/src/an-application):
  fix.py
  @@ -1,3 +1,3 @@
   def add(a, b):
       # Add two numbers.
  -    return a + b + 1
  +    return a + b
"""


class UserMessage(Event):
    """The prompt."""

    prompt: str


class Thinking(Event):
    """A block of thinking."""

    text: str


class ToolUse(Event):
    """A tool call."""

    tool_name: str
    tool_use_id: str
    input: dict[str, Any]


class ToolResult(Event):
    """The result of a tool call."""

    tool_use_id: str
    output: str
    is_error: bool = False


class Piece(Event, tag="content_delta"):
    """A piece of the answer."""

    text: str
    offset: int


class AwaitingApproval(Event):
    """A question about a tool call."""

    approval_id: str
    tool_name: str
    tool_use_id: str


class ApprovalResolved(Event):
    """Its answer."""

    approval_id: str
    approved: bool
    message: str


class Complete(Event):
    """The end of a turn."""

    usage: dict[str, int]
    result: dict[str, float]


class Recorded(Event):
    """An event of an earlier turn."""

    timestamp: int
    event: dict[str, Any]


class Message(Event):
    """A message of an earlier conversation."""

    node_id: str
    role: str
    content: list[dict[str, Any]]


class Failed(Event, tag="error"):
    """The failure of a turn."""

    message: str


class Text(Event):
    """A text."""

    text: str


class Stdout(Event):
    """A line of a command."""

    line: str


class Exit(Event):
    """The end of a command."""

    code: int


class Row(BaseModel):
    """A row of a list."""

    name: str
    status: str
    prompt: str


class Rows(Event):
    """A list."""

    rows: list[Row]


class Record(Event):
    """A record."""

    name: str
    status: str
    text: str
    tree_id: str


class Nodes(Event):
    """A tree."""

    tree_id: str
    title: str
    nodes: list[dict[str, Any]]
    more: int = 0


ChatEvent = (
    UserMessage
    | Thinking
    | ToolUse
    | ToolResult
    | Piece
    | AwaitingApproval
    | ApprovalResolved
    | Complete
    | Failed
)


class Studio(Activation, namespace="studio", version="1.0.0"):
    """A method for every view.

    The texts of all methods can be hostile.
    """

    @method(
        render="chat",
        interactive={"param": "prompt", "commands": {"list": {"method": "studio.table"}}},
    )
    async def chat(
        self, name: str, prompt: str, text: str = ANSWER, size: int = 7, end: str = "complete"
    ) -> AsyncIterator[ChatEvent]:
        """Answer a prompt with thinking, tools and text.

        Args:
            name: The name of the conversation.
            prompt: The prompt.
            text: The answer; `hostile` for one with control sequences.
            size: The characters of each piece of the answer.
            end: `complete` or `error`.
        """
        bad = HOSTILE if text == "hostile" else ""
        yield UserMessage(prompt=prompt)
        yield Thinking(text=f"The tests first.{bad}")
        yield ToolUse(tool_name=f"Bash{bad}", tool_use_id="1", input={"command": f"pytest -q{bad}"})
        output = f"FAILED tests/test_add.py::test_add - assert 5 == 4{bad}\n" + "more\n" * 12
        yield ToolResult(tool_use_id="1", output=output, is_error=True)
        write = {"file_path": f"fix.py{bad}", "content": "one\ntwo\n"}
        yield ToolUse(tool_name="Write", tool_use_id="2", input=write)
        yield AwaitingApproval(approval_id="a", tool_name="Write", tool_use_id="2")
        yield ApprovalResolved(approval_id="a", approved=False, message=f"not in this file{bad}")
        answer = f"{bad}\n\n{bad} `{bad}` [x]({bad})\n" if bad else text
        for start in range(0, len(answer), size):
            yield Piece(text=answer[start : start + size], offset=start)
        if end == "error":
            yield Failed(message=f"claude stopped: Reached maximum number of turns (3){bad}")
        else:
            usage = {"input_tokens": 3021, "output_tokens": 210}
            yield Complete(usage=usage, result={"duration_ms": 8400, "total_cost_usd": 0.0121})

    @method(read_only=True, render="chat")
    async def replay(self, text: str = ANSWER) -> AsyncIterator[Recorded]:
        """Show a turn again.

        Args:
            text: The answer; `hostile` for one with control sequences.
        """
        turn = self.chat("fix", f"Hello{HOSTILE if text == 'hostile' else ''}", text, 100_000)
        async for event in turn:
            content = event.model_dump(mode="json")
            yield Recorded(timestamp=1_700_000_000, event={"type": event.tag, **content})

    @method(read_only=True, render="chat")
    async def messages(self, bad: bool = False) -> AsyncIterator[Message]:
        """Show the messages of a conversation."""
        text = HOSTILE if bad else ""
        asked = {"type": "text", "text": f"Fix the failing test{text}"}
        thinking = {"type": "thinking", "thinking": f"The tests first.{text}"}
        given = {"command": f"pytest -q{text}"}
        call = {"type": "tool_use", "id": "1", "name": f"Bash{text}", "input": given}
        output = [{"type": "text", "text": f"5 passed{text}"}]
        result = {"type": "tool_result", "tool_use_id": "1", "content": output}
        answer = {"type": "text", "text": f"Done. The **bug** was in `add{text}`.{text}"}
        yield Message(node_id=f"a{text}", role="user", content=[asked])
        yield Message(node_id=f"b{text}", role="assistant", content=[thinking, call])
        yield Message(node_id=f"c{text}", role="user", content=[result])
        yield Message(node_id=f"d{text}", role="assistant", content=[answer])

    @method(streaming=False, bidirectional=True)
    async def approve(self, message: str = DIFF) -> Text:
        """Ask about a change.

        Args:
            message: The question; `hostile` for one with control sequences.
        """
        keys = {"y": "allow", "n": "deny", "e": "edit", "a": "always", "d": "details"}
        options = [Option(label, label, f"This means {label}", key) for key, label in keys.items()]
        text = f"Bash wants to run:\n  {HOSTILE}" if message == "hostile" else message.rstrip()
        return Text(text=f"chosen: {await self.host.select(text, options)}")

    @method(read_only=True, render="table")
    async def table(self, bad: bool = False) -> Rows:
        """List rows."""
        text = HOSTILE if bad else "Fix the failing test of the sum"
        row = Row(name=f"fix{text if bad else ''}", status="complete", prompt=text)
        return Rows(rows=[row, Row(name="par1", status="running", prompt="Summarise the logs")])

    @method(read_only=True)
    async def record(self, bad: bool = False) -> Record:
        """Show a record."""
        text = HOSTILE if bad else "Fix the failing test of the sum, and add a line about it."
        tree = "4c23c707-60b6-4c0e-9299-52d55269183e"
        return Record(name="fix", status=f"failed{text if bad else ''}", text=text, tree_id=tree)

    @method(read_only=True, render="tree")
    async def tree(self, bad: bool = False) -> Nodes:
        """Draw a conversation with two branches."""
        text = HOSTILE if bad else ""
        turns = [
            ("a", None, "Fix the failing test", "Done. The bug was in `add`.", []),
            ("b", "a", "Now add a changelog entry", "Added.", ["review"]),
            ("c", "b", "Use British spelling", 'Changed "color" to "colour".', ["br2"]),
            ("d", "b", "Drop the entry again", "Dropped.", ["fix"]),
        ]
        nodes: list[dict[str, Any]] = []
        for name, parent, prompt, answer, marks in turns:
            above = f"{parent}2" if parent else None
            asked = {"id": name, "parent": above, "kind": "message", "role": "user"}
            said = {"id": f"{name}2", "parent": name, "kind": "message", "role": "assistant"}
            nodes.append({**asked, "text": prompt + text})
            nodes.append({**said, "text": answer + text, "marks": [m + text for m in marks]})
        tree_id = "4c23c707-60b6-4c0e-9299-52d55269183e"
        return Nodes(tree_id=tree_id, title=f"fix{text}", nodes=nodes, more=9981)

    @method(read_only=True, render="text")
    async def words(self, text: str = "A text with **stars**, shown as it is.") -> Text:
        """Show a text."""
        return Text(text=HOSTILE if text == "hostile" else text)

    @method(render="process")
    async def process(self) -> AsyncIterator[Stdout | Exit]:
        """Run a command."""
        yield Stdout(line=f"a line{HOSTILE}")
        yield Exit(code=0)

    @method
    async def fail(self, bad: bool = False) -> AsyncIterator[Text]:
        """Fail."""
        if bad:
            raise NotFound(f"no session {HOSTILE}")
        raise NotFound(
            "no session 'nowhere' in this place",
            suggestion="List the sessions with `synapse studio table`",
        )
        yield Text(text="")
