"""A plugin with every kind of parameter, event, question and failure, loaded by --plugin."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal

from hubd.activation import Activation, Event, Handle, Option, method, resolver
from hubd.errors import by_code

# Colour, a window title with a bell, a link, a C1 sequence, a carriage return: each is obeyed by
# some terminal, and none may get there.
HOSTILE = (
    "\x1b[31mRED\x1b]0;TITLE\x07 \x1b]8;;http://evil.example\x1b\\LINK\x1b]8;;\x1b\\"
    " \x9b32mC1 \x1bcRESET back\x08\rover \x7f end"
)
TAME = "RED LINK C1 RESET backover  end"
# An override that turns text round, a zero width space, a tag, a byte order mark.
INVISIBLE = "file\u202egpj.exe a\u200bb \U000e0041\ufeff 👩\u200d💻 שלום\u200f"


class Note(Event):
    text: str


class Row(Event):
    name: str
    size: int
    about: str


class Page(Event):
    """Several rows."""

    rows: list[Row]


class Pet(Event):
    pet: str


class Step(Event):
    n: int


class Where(Event):
    cwd: str | None
    greeting: str | None


class Odd(Event):
    """Keys and kinds are text of a plugin too."""

    values: dict[str, str]


class Nodes(Event):
    tree_id: str
    nodes: list[dict[str, Any]]
    more: int = 0


class TreePage(Event):
    """A page of a tree."""

    tree: dict[str, Any]


class Open(Event):
    """An event whose fields are not declared."""

    values: dict[str, Any]


class Delta(Event, tag="content_delta"):
    text: str


class AwaitingApproval(Event):
    approval_id: str
    tool_name: str


class ApprovalResolved(Event):
    approval_id: str
    approved: bool


class Piece(Event):
    """The next piece of a text."""

    content: str
    offset: int


class Speech(Event):
    """A complete message."""

    role: str
    content: str


class Complete(Event):
    turns: int
    result: dict[str, Any] | None = None


class Whole(Event, tag="content"):
    """A complete block of text."""

    text: str
    block_index: int = 0
    parent_tool_use_id: str | None = None


class PlacedDelta(Event, tag="content_delta"):
    """The next piece of a block."""

    text: str
    offset: int
    block_index: int = 0


class Thought(Event, tag="thinking"):
    text: str


class ThoughtDelta(Event, tag="thinking_delta"):
    text: str
    offset: int


class ToolUse(Event):
    tool_name: str


class ToolResult(Event):
    output: str
    text: str


class Recorded(Event, tag="event"):
    """An event of a log."""

    seq: int
    event: dict[str, Any]


class Blocks(Event, tag="message"):
    """A complete message in blocks."""

    role: str
    content: list[dict[str, Any]]
    node_id: str


class ChatFailed(Event, tag="error"):
    message: str


class Said(Handle, method="say", kind="message", summary="{text}"):
    """A handle to a text."""

    text: str
    role: str


class SaidText(Event, tag="said"):
    """A text and its role."""

    text: str
    role: str
    model: str | None
    handle: Said


class Stdout(Event):
    line: str
    partial: bool = False
    escaped: bool = False


class Stderr(Event):
    line: str


class Exit(Event):
    code: int


class Cli(Activation, namespace="cli", version="1.2.0"):
    """All kinds of methods for the command line."""

    def __init__(self) -> None:
        # Steps that streams may take, ends that streams have come to, and calls, by the test's key.
        self._turns: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))
        self._ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._calls: dict[str, int] = defaultdict(int)

    @method(render="process")
    async def act(self, code: int = 0) -> AsyncIterator[Stdout | Stderr | Exit]:
        """Send the events of a command that writes anything."""
        yield Stdout(line=HOSTILE)
        yield Stderr(line="careful")
        yield Stdout(line="\\xff\\\\\\x00", escaped=True)
        yield Stdout(line="no end", partial=True)
        if code >= 0:
            yield Exit(code=code)

    @method(streaming=False)
    async def fail(self, code: str, message: str = "it failed") -> AsyncIterator[Note]:
        """End with an error.

        Args:
            code: Its code.
            message: The text of the message.
        """
        raise by_code(code, message)
        yield Note(text="")

    @method
    async def half(self, code: str = "execution_error") -> AsyncIterator[Note]:
        """Say something, then end with an error."""
        yield Note(text="so far")
        raise by_code(code, "it failed half way")

    @method
    async def slow(self, key: str, count: int = 3) -> AsyncIterator[Step]:
        """Take a step after each call of `go`.

        Args:
            key: Whose steps.
            count: How many.
        """
        try:
            for n in range(count):
                yield Step(n=n)
                await self._turns[key].acquire()
        finally:
            self._ended[key].set()

    @method(streaming=False)
    async def go(self, key: str, steps: int = 1) -> AsyncIterator[Step]:
        """Let a slow stream continue."""
        for _ in range(steps):
            self._turns[key].release()
        yield Step(n=steps)

    @method(streaming=False)
    async def ended(self, key: str) -> AsyncIterator[Note]:
        """Wait until a slow stream has cleaned up."""
        async with asyncio.timeout(10):
            await self._ended[key].wait()
        yield Note(text="cleaned up")

    @method(streaming=False)
    async def calls(self, key: str) -> AsyncIterator[Step]:
        """Return the number of calls of `working`."""
        yield Step(n=self._calls[key])

    @method(streaming=False)
    async def working(self, key: str, message: str = "half way") -> AsyncIterator[Note]:
        """Report progress, wait for `go`, then fail if the key begins with "fail"."""
        self._calls[key] += 1
        await self.host.progress(message, 50.0)
        await self._turns[key].acquire()
        if key.startswith("fail"):
            raise by_code("execution_error", "the work was in vain")
        yield Note(text="worked")

    @method(streaming=False, bidirectional=True)
    async def ask(
        self,
        kind: Literal["confirm", "prompt", "multiline", "select", "many", "keys", "custom"],
        message: str = "Well?",
        default: str | None = None,
    ) -> AsyncIterator[Note]:
        """Ask one question and return the answer.

        Args:
            kind: Which question.
            message: The text of the question.
            default: The answer if nothing is typed.
        """
        options = [Option("r", "Red", "as blood"), Option("g", "Green"), Option("b", "Blue")]
        answer: object
        if kind == "confirm":
            yes = {None: None, "yes": True, "no": False}[default]
            answer = await self.host.confirm(message, default=yes)
        elif kind in ("prompt", "multiline"):
            multiline = kind == "multiline"
            answer = await self.host.prompt(message, default=default, multiline=multiline)
        elif kind == "keys":
            keyed = [replace(option, key=key) for option, key in zip(options, "xyz", strict=True)]
            answer = await self.host.select(message, keyed)
        elif kind in ("select", "many"):
            answer = await self.host.select(message, options, multi=kind == "many")
        else:
            answer = await self.host.custom({"wanted": message})
        yield Note(text=repr(answer))

    @method(streaming=False, bidirectional=True)
    async def hasty(self, key: str, seconds: float) -> AsyncIterator[Note]:
        """Ask, wait some time for the answer, and continue after `go`."""
        answer = await self.host.confirm("Quick?", default=True, timeout_seconds=seconds)
        self._ended[key].set()
        await self._turns[key].acquire()
        yield Note(text=f"went on with {answer}")

    @method(render="chat")
    async def chat(
        self,
        end: Literal[
            "complete",
            "waiting",
            "denied",
            "went on",
            "approved",
            "refused by the agent",
            "refused with advice",
            "error",
            "failed",
        ],
    ) -> AsyncIterator[Delta | AwaitingApproval | ApprovalResolved | Complete | ChatFailed]:
        """Chat, and end in one of the ways a chat ends.

        Args:
            end: How.
        """
        yield Delta(text="Hel")
        yield Delta(text="lo")
        if end in ("waiting", "denied", "went on", "approved"):
            yield AwaitingApproval(approval_id="a1", tool_name="Bash")
        if end in ("denied", "went on", "approved"):
            yield ApprovalResolved(approval_id="a1", approved=end == "approved")
        if end in ("complete", "went on", "approved"):
            yield Complete(turns=1, result={"permission_denials": []})
        if end.startswith("refused"):
            yield Complete(turns=1, result={"permission_denials": [{"tool_name": "Write"}]})
        if end == "refused with advice":
            await self.host.advise("tool_denied", "Write was not allowed. Allow it with --write.")
        if end == "error":
            yield ChatFailed(message="the model gave up")
        if end == "failed":
            raise by_code("unavailable", "no model")

    @method(render="chat")
    async def pieces(self) -> AsyncIterator[Piece | Speech | Complete]:
        """Yield a complete message, then one in pieces with offsets."""
        yield Speech(role="user", content="Well?")
        yield Piece(content="Half ", offset=0)
        yield Piece(content="and half", offset=5)
        yield Complete(turns=1)

    @method(render="chat")
    async def talk(
        self, live: bool = True
    ) -> AsyncIterator[
        Thought | ThoughtDelta | PlacedDelta | Whole | ToolUse | ToolResult | Note | Complete
    ]:
        """An answer in two blocks, with thinking, a tool and a subagent around them.

        Args:
            live: The pieces of the first block come before the whole.
        """
        yield ThoughtDelta(text="Hmm", offset=0)
        yield Thought(text="Hmm")
        if live:
            yield PlacedDelta(text="The first ", offset=0)
            yield PlacedDelta(text="bl", offset=10)
        yield Whole(text="The first block.")
        yield ToolUse(tool_name="Bash")
        yield Whole(text="from a subagent", parent_tool_use_id="t1")
        yield ToolResult(output="from a tool", text="from a tool")
        if live:
            yield PlacedDelta(text="The second", offset=0, block_index=1)
        yield Whole(text="The second.\n", block_index=1)
        yield Note(text="a note")
        yield Complete(turns=1)

    @method(render="chat", read_only=True)
    async def recorded(self) -> AsyncIterator[Recorded]:
        """Yield the events of a log."""
        events: list[dict[str, Any]] = [
            {"type": "user_message", "text": "Well?"},
            {"type": "thinking", "text": "Hmm"},
            {"type": "content", "text": "The answer."},
            {"type": "tool_result", "text": "from a tool"},
            {"type": "complete"},
        ]
        for seq, event in enumerate(events):
            yield Recorded(seq=seq, event=event)

    @method(render="chat", read_only=True)
    async def messages(self) -> AsyncIterator[Blocks]:
        """Yield a conversation in complete messages."""
        node = "01a1eaf9-fefe-752f-82e7-76290000000"
        asked = {"type": "text", "text": "Well?"}
        yield Blocks(role="user", content=[asked], node_id=f"{node}1")
        answer = [
            {"type": "thinking", "thinking": "Hmm"},
            {"type": "text", "text": "The answer."},
            {"type": "tool_use", "name": "Bash"},
        ]
        yield Blocks(role="assistant", content=answer, node_id=f"{node}2")
        result = [{"type": "tool_result", "content": "from a tool"}]
        yield Blocks(role="user", content=result, node_id=f"{node}3")

    @method(render="chat")
    async def linger(self, key: str, queued: bool = False) -> AsyncIterator[Delta | Complete]:
        """A chat that answers after `go`.

        Args:
            key: The name of the chat.
            queued: Report progress while it waits.
        """
        if queued:
            await self.host.progress("queued behind 1 chat")
        await self._turns[key].acquire()
        yield Delta(text="at last")
        yield Complete(turns=1)

    @method(
        render="chat",
        interactive={
            "param": "text",
            "commands": {
                "note": {"method": "cli.words", "argument": "text"},
                "room": {"param": "room"},
            },
        },
    )
    async def converse(self, room: str, text: str) -> AsyncIterator[Whole | Complete]:
        """Answer a text, for a conversation at a prompt.

        Args:
            room: The name of the conversation.
            text: The text; `wait` waits without end.
        """
        if text == "wait":
            await self.host.progress(f"waiting in {room}")
            await asyncio.Event().wait()
        yield Whole(text=f"{room} heard {text}")
        yield Complete(turns=1)

    @method(render="chat", read_only=True)
    async def follow(self, key: str) -> AsyncIterator[Delta]:
        """Watch a chat."""
        yield Delta(text=key)

    @method(streaming=False)
    async def cancel(self, key: str) -> AsyncIterator[Note]:
        """End a chat."""
        yield Note(text=key)

    @method(streaming=False)
    async def busy(self, count: int = 200) -> AsyncIterator[Note]:
        """Report progress often."""
        for number in range(count):
            await self.host.progress(f"step {number}")
        yield Note(text="worked")

    @method(streaming=False, destructive=True)
    async def hide(self, name: str = "it") -> AsyncIterator[Note]:
        """Remove something."""
        yield Note(text=f"{name} is gone")

    @method(streaming=False, bidirectional=True)
    async def two_questions(self) -> AsyncIterator[Note]:
        """Ask for a confirmation, then for a name."""
        sure = await self.host.confirm("Sure?")
        name = await self.host.prompt("Who?")
        yield Note(text=f"{sure} {name}")

    @method(streaming=False, bidirectional=True)
    async def key_then_text(self) -> AsyncIterator[Note]:
        """Ask for a key, then for a text."""
        await self.host.select("Which?", [Option("m", "message", key="m")])
        yield Note(text=repr(await self.host.prompt("Message")))

    @method(streaming=False, read_only=True)
    async def anything(self) -> AsyncIterator[Open]:
        """An event with fields that no schema names."""
        yield Open(values={"colour": "red", "size": 3})

    @method(streaming=False, render="tree")
    async def long_tree(
        self, turns: int = 30, resolve: bool = False, limit: int = 10000
    ) -> AsyncIterator[Nodes]:
        """A conversation of many turns that forks once, with nodes left out.

        Args:
            turns: How many.
            resolve: Resolve the handles.
            limit: How many nodes at most.
        """
        what = "message" if resolve else "handle"
        nodes: list[dict[str, Any]] = [{"id": "root", "parent": None, "summary": ""}]
        head = "root"
        for turn in range(turns):
            names = (f"t{turn}", f"u{turn}", f"a{turn}", f"b{turn}")
            parents = (head, names[0], names[0], names[2])
            for name, parent in zip(names, parents, strict=True):
                text = f"{what} {name} " + "long " * 30
                nodes.append({"id": name, "parent": parent, "summary": text})
            head = names[2]
        fork = [("f1", "a3"), ("f2", "f1"), ("f3", "f2")]
        nodes += [{"id": name, "parent": above, "summary": name} for name, above in fork]
        nodes[-1]["more"] = 7
        yield Nodes(tree_id="t1", nodes=nodes, more=1234)

    @method(read_only=True)
    async def tree_pages(self) -> AsyncIterator[TreePage]:
        """A tree in two pages, with the fields of a stored node."""
        uuid = "01a1eaf9-fefe-752f-82e7-76290000000"
        first = {"id": f"{uuid}1", "parent": None, "data": {"type": "text", "content": "one"}}
        handle = {"type": "external", "handle": "echo@1.0.0::once:hi"}
        second = {"id": f"{uuid}2", "parent": f"{uuid}1", "data": handle}
        for node in (first, second):
            yield TreePage(tree={"tree_id": "t1", "state": "active", "nodes": [node]})

    @method(streaming=False)
    async def invisible(self) -> AsyncIterator[Note]:
        """Text with invisible characters."""
        yield Note(text=INVISIBLE)

    @method(render="table", read_only=True)
    async def rows(self, count: int = 3) -> AsyncIterator[Row]:
        """A table with a wide column."""
        for number in range(count):
            about = f"row {number} 汉字 🎉 " + "long " * 30
            yield Row(name=f"name-{number}", size=number * 1000, about=about)

    @method(render="table", read_only=True)
    async def pages(self, count: int = 3) -> AsyncIterator[Page]:
        """A table whose rows come in one event."""
        yield Page(rows=[Row(name=f"name-{n}", size=n, about="long " * 30) for n in range(count)])

    @method(streaming=False, render="text")
    async def words(self, text: str = "plain words") -> AsyncIterator[Note]:
        """A text."""
        yield Note(text=text)

    @method(streaming=False, render="tree")
    async def branches(self) -> AsyncIterator[Nodes]:
        """A tree."""
        nodes: list[dict[str, Any]] = [
            {"id": "a", "parent": None, "summary": "the root"},
            {"id": "b", "parent": "a", "summary": "a leaf"},
        ]
        yield Nodes(tree_id="t1", nodes=nodes)

    @method(streaming=False)
    async def hostile(self) -> AsyncIterator[Note]:
        """One event with control sequences in its text."""
        yield Note(text=HOSTILE)

    @method
    async def hostile_stream(self) -> AsyncIterator[Odd]:
        """A stream with control sequences in texts and keys."""
        yield Odd(values={HOSTILE: HOSTILE})
        yield Odd(values={"plain": HOSTILE})

    @method(streaming=False, render="text")
    async def hostile_text(self) -> AsyncIterator[Note]:
        """A text with control sequences."""
        yield Note(text=HOSTILE)

    @method(render="chat")
    async def hostile_chat(self) -> AsyncIterator[Delta | Note | Complete]:
        """A chat with a control sequence that is split over two events."""
        yield Delta(text=HOSTILE)
        yield Delta(text="\x1b")
        yield Delta(text="[31mSPLIT")
        yield Note(text=HOSTILE)
        yield Complete(turns=1)

    @method(streaming=False)
    async def hostile_end(self) -> AsyncIterator[Note]:
        """Progress and an error with control sequences and line ends."""
        await self.host.progress(f"[/bold] {HOSTILE}", 10.0)
        raise by_code("conflict", f"{HOSTILE}\nsecond line", suggestion=HOSTILE)
        yield Note(text="")

    @method(streaming=False, completes={"pet": "cli.pets"}, aliases={"pet": ["animal"]})
    async def stroke(
        self,
        pet: str,
        mood: Literal["calm", "wild"] = "calm",
        gently: bool = True,
        tags: list[str] | None = None,
    ) -> AsyncIterator[Note]:
        """Stroke a pet.

        Args:
            pet: Which.
            mood: How it is.
            gently: Not roughly.
            tags: Any words.
        """
        yield Note(text=f"{pet} {mood} {gently} {tags}")

    @method
    async def pets(self) -> AsyncIterator[Pet]:
        """List the pets; one name contains characters that are special for shells."""
        for name in ("Tom", "Tiger::two", "with space", "bad\nline\x1b[31m"):
            yield Pet(pet=name)

    @method(streaming=False, needs_context=True)
    async def where(self) -> AsyncIterator[Where]:
        """Return the caller context."""
        context = self.host.context
        yield Where(cwd=context.cwd, greeting=context.env.get("GREETING"))

    @method(streaming=False)
    async def say(self, text: str, role: str = "user") -> AsyncIterator[SaidText]:
        """Say something and hand out a handle to it.

        Args:
            text: What to say.
            role: Who says it.
        """
        yield SaidText(text=text, role=role, model=None, handle=Said(text=text, role=role))

    @resolver
    async def said(self, handle: Said) -> AsyncIterator[SaidText]:
        """Return the text of a handle."""
        yield SaidText(text=handle.text, role=handle.role, model=None, handle=handle)


class CliLater(Activation, namespace="cli", version="1.3.0"):
    """The next version of the namespace, with new, removed and changed methods."""

    @method(streaming=False)
    async def say(self, text: str, volume: int, tone: str = "flat") -> AsyncIterator[Note]:
        """Say something, at a volume.

        Args:
            text: What to say.
            volume: How loud.
            tone: How.
        """
        yield Note(text=f"{text} at {volume}, {tone}")

    @method(streaming=False)
    async def words(self, text: str = "other words") -> AsyncIterator[Note]:
        """A text."""
        yield Note(text=text)

    @method(streaming=False)
    async def sing(self, text: str) -> AsyncIterator[Note]:
        """Sing something.

        Args:
            text: What to sing.
        """
        yield Note(text=f"la {text}")

    @method(streaming=False)
    async def fail(self, key: str = "", code: str = "not_found") -> AsyncIterator[Note]:
        """Count the call, then fail."""
        CALLS.append(key)
        raise by_code(code, "it failed later")
        yield Note(text="")

    @method(streaming=False)
    async def calls(self, key: str) -> AsyncIterator[Step]:
        """Return the number of calls of `fail`."""
        yield Step(n=CALLS.count(key))


CALLS: list[str] = []
