"""A third-party plugin with the hints for every view at a terminal, loaded by --plugin."""

import time
from typing import Any, Literal

from pydantic import BaseModel, Field

from hubd.activation import Activation, Event, columns, method

HOSTILE = "\x1b[2J\x1b]0;title\x07evil\tname\r\n│ ● fake\u202e"
# Times are relative, so the golden drawings stay the same.
HOUR = 3600


class Job(BaseModel):
    """A job."""

    job_id: str
    name: str
    status: str
    prompt: str
    size: int
    cost_usd: float
    updated_at: int
    tags: list[str]


class Jobs(Event):
    """A page of jobs in declared columns."""

    jobs: list[Job] = Field(
        json_schema_extra=columns(
            name="{name}", status="{status}", asked="{prompt}", cost="{cost_usd}", size="{size}"
        )
    )


class PlainJobs(Event):
    """A page of jobs without declared columns."""

    jobs: list[Job]


class JobData(Event, tag="job"):
    """One job."""

    job: Job
    head: dict[str, str]
    duration_ms: int
    turns: int


class Step(Event, summary="{number}. {what}"):
    """A step of a job."""

    number: int
    what: str


class Log(Event):
    """A page of events."""

    total: int
    events: list[Step]


class Nodes(Event):
    """A tree."""

    tree_id: str
    nodes: list[dict[str, Any]]
    more: int = 0


def _job(number: int, name: str, status: str, prompt: str) -> Job:
    return Job(
        job_id=f"4c23c707-0000-4000-8000-00000000000{number}",
        name=name,
        status=status,
        prompt=prompt,
        size=1536 * number,
        cost_usd=0.125 * number,
        updated_at=int(time.time()) - 5 * HOUR,
        tags=["a", "b"],
    )


def _jobs() -> list[Job]:
    return [
        _job(1, "par1", "running", "Summarise the logs"),
        _job(2, "fix", "awaiting_permission", "Fix the failing test"),
        _job(3, "old", "complete", "Write the README, with a tour that runs " * 3),
        _job(4, HOSTILE, "failed", f"line one\n{HOSTILE}"),
    ]


class Views(Activation, namespace="views", version="1.0.0"):
    """Every view at a terminal."""

    @method(read_only=True, render="table")
    async def jobs(
        self,
        limit: int = 20,
        order: Literal["newest_first", "oldest_first", "most_expensive_first"] = "newest_first",
    ) -> Jobs:
        """List jobs, with [bold]not markup[/] and :memo: not an emoji.

        Args:
            limit: The most jobs.
            order: The order of the jobs in the answer, which this plugin ignores.
        """
        return Jobs(jobs=_jobs()[:limit])

    @method(read_only=True, render="table")
    async def plain_jobs(self) -> PlainJobs:
        """List jobs without declared columns."""
        return PlainJobs(jobs=_jobs())

    @method(read_only=True)
    async def job(self) -> JobData:
        """Show a job."""
        head = {
            "tree_id": "4c23c707-60b6-4c0e-9299-52d55269183e",
            "node_id": "01a1ed22-63b4-7aec-aefe-c7b0a6eea5d2",
        }
        return JobData(job=_jobs()[1], head=head, duration_ms=8400, turns=3)

    @method(read_only=True)
    async def log(self) -> Log:
        """Show the steps of a job."""
        steps = [Step(number=number, what=f"step {number}\x1b[2J") for number in range(3)]
        return Log(total=3, events=steps)

    @method(read_only=True, render="tree")
    async def talk(self, turns: int = 14, limit: int = 1000) -> Nodes:
        """Draw a conversation that forks three times.

        Args:
            turns: The number of turns before the forks.
            limit: The maximum number of nodes.
        """
        nodes: list[dict[str, Any]] = [_node("root", None, "")]
        head = "root"
        for number in range(turns):
            head = _turn(nodes, head, f"t{number}", f"Prompt {number} {HOSTILE}")
            if number in (3, 6, 9):
                branch = _turn(nodes, head, f"x{number}", f"Another way {number}")
                nodes[-1]["marks"] = [f"branch{number}"]
                _turn(nodes, branch, f"y{number}", "And on from there")
        nodes[-1]["marks"] = ["main", "copy"]
        return Nodes(tree_id="4c23c707-60b6-4c0e-9299-52d55269183e", nodes=nodes)

    @method(read_only=True, render="tree")
    async def files(self, limit: int = 5) -> Nodes:
        """Draw a tree that is not a conversation, with nodes left out."""
        names = [("src", ""), ("main.py", "src"), ("lib", "src"), ("a.py", "lib"), (HOSTILE, "lib")]
        nodes = [{"id": name, "parent": above or None, "summary": name} for name, above in names]
        return Nodes(tree_id="files", nodes=nodes[:limit], more=5 - min(limit, 5))


def _node(name: str, parent: str | None, summary: str, **more: Any) -> dict[str, Any]:
    moment = int(time.time()) - 2 * HOUR
    return {"id": name, "parent": parent, "summary": summary, "created_at": moment, **more}


def _turn(nodes: list[dict[str, Any]], head: str, name: str, prompt: str) -> str:
    """Add a turn of six nodes; return the one at which the conversation continues."""
    call = {"tool_use_id": f"call {name}"}
    nodes += [
        _node(name, head, f"turn: {prompt}", kind="turn", text=prompt),
        _node(f"{name}u", name, prompt, kind="message", role="user", text=prompt),
        _node(f"{name}c", f"{name}a", "", kind="block", tool_name="Bash", text="pytest -q", **call),
        _node(f"{name}r", f"{name}a", "", kind="output", is_error=name == "t1", **call),
        _node(f"{name}d", f"{name}a", "Done", kind="block", text=f"Done with {prompt}"),
    ]
    answer = _node(f"{name}a", name, "assistant: Done", kind="message", role="assistant")
    nodes.insert(-3, {**answer, "short_id": f"id{name}"})
    return f"{name}a"
