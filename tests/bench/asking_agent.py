"""An agent that asks for approvals one after another, and notes when it hears each answer.

`python -m tests.bench.asking_agent COUNT FILE`, with other flags in any place. Without COUNT it
notes the time of each line that it reads, as the bare pipe of the comparison.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

SESSION = str(uuid4())


def emit(**line: Any) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps({"session_id": SESSION, "uuid": str(uuid4()), **line}) + "\n")
    sys.stdout.flush()


def heard(file: Path) -> None:
    """Note the time. All processes share this clock."""
    with file.open("a") as times:
        times.write(f"{time.monotonic_ns()}\n")


def ask(count: int, file: Path) -> None:
    """Ask this often, then end the turn."""
    sys.stdin.readline()
    emit(type="system", subtype="init", model="m", cwd="/", tools=[])
    for number in range(count):
        call = f"toolu_{number}_{uuid4().hex}"
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": call}
        request["input"] = {"command": f"touch {number}"}  # type: ignore[assignment]
        emit(type="control_request", request_id=call, request=request)
        sys.stdin.readline()
        heard(file)
        block = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
        emit(type="user", message={"role": "user", "content": [block]})
    emit(type="result", subtype="success", is_error=False, result="", num_turns=1, usage={})
    sys.stdin.readline()


def main() -> None:
    """Ask, or read lines."""
    *_, count, name = [word for word in sys.argv[1:] if not word.startswith("--")]
    if int(count):
        ask(int(count), Path(name))
    else:
        while sys.stdin.readline():
            heard(Path(name))


if __name__ == "__main__":
    main()
