"""Draw the README's pictures from a real terminal: `python -m tests.docs.draw_tour`."""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.docs.console_examples import Example, run
from tests.support import HUBD, environment

IMAGES = Path(__file__).parent.parent.parent / "docs/images"
COLUMNS = 88
PROMPT = "think: Run the tests first.\\nrun: echo 1 failed\\nsay: The test fails. I will fix `add`."
# The commands of each picture. They share one hub.
PICTURES = {
    "tour": (
        "synapse claudecode chat --name fix --model offline --allowed-tools Bash "
        f"--prompt $'{PROMPT}'",
    ),
    "tree": (
        "synapse claudecode fork --name fix --new-name idea --json --fields name",
        'synapse claudecode chat --name idea --prompt "say: Another idea: rewrite it." --raw',
        'synapse claudecode chat --name fix --prompt "say: I fixed it." --raw',
        "tree=$(synapse claudecode get_tree --name fix --raw --fields tree_id)",
        'synapse arbor tree_render --tree-id "$tree"',
    ),
    "inbox": (
        "synapse claudecode chat_async --name build --model offline "
        '--prompt "run: rm -rf build" --fields status',
        "synapse loopback wait_for_approval --timeout-secs 20 --fields tool_name",
        "synapse claudecode list",
        "synapse loopback pending",
    ),
}


def main() -> None:
    """Run the commands in a hub of their own and write the pictures."""
    commands = [command for each in PICTURES.values() for command in each]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        variables = environment(
            HOME=name,
            HUBD_HOME=str(directory / "hub"),
            HUBD_PORT="0",
            HUBD_MCP_PORT="0",
            PAGER="cat",
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        )
        try:
            examples = [Example(command) for command in commands]
            outputs = run(examples, directory, variables, columns=COLUMNS, styles=True)
        finally:
            subprocess.run([*HUBD, "stop"], env=variables, capture_output=True, check=False)
    printed = dict(zip(commands, outputs, strict=True))
    IMAGES.mkdir(parents=True, exist_ok=True)
    for title, shell_commands in PICTURES.items():
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
        for command in shell_commands:
            console.print(Text(f"$ {command}", style="bold green"))
            console.print(Text.from_ansi(printed[command]), end="")
        svg = console.export_svg(title="hubd + synapse")
        # Without the fonts that Rich would load from the web.
        (IMAGES / f"{title}.svg").write_text(
            re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
        )


if __name__ == "__main__":
    main()
