"""Draw the README's picture from a real terminal: `python -m tests.docs.draw_tour`."""

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

PICTURE = Path(__file__).parent.parent.parent / "docs/images/tour.svg"
COLUMNS = 88
PROMPT = "think: Run the tests first.\\nrun: echo 1 failed\\nsay: The test fails. I will fix add()."
COMMANDS = (
    f"synapse claudecode chat --name fix --model offline --allowed-tools Bash --prompt $'{PROMPT}'",
    "synapse claudecode fork --name fix --new-name idea --json --fields name",
    'synapse claudecode chat --name idea --prompt "say: Another idea: rewrite it." --raw',
    "tree=$(synapse claudecode get_tree --name fix --raw --fields tree_id)",
    'synapse arbor tree_render --resolve --tree-id "$tree"',
)


def main() -> None:
    """Run the commands in a hub of their own and write the picture."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        variables = environment(
            HOME=name,
            HUBD_HOME=str(directory / "hub"),
            HUBD_PORT="0",
            HUBD_MCP_PORT="0",
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        )
        try:
            examples = [Example(command) for command in COMMANDS]
            outputs = run(examples, directory, variables, columns=COLUMNS, styles=True)
        finally:
            subprocess.run([*HUBD, "stop"], env=variables, capture_output=True, check=False)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for command, output in zip(COMMANDS, outputs, strict=True):
        console.print(Text(f"$ {command}", style="bold green"))
        console.print(Text.from_ansi(output), end="")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(title="hubd + synapse")
    # Without the fonts that Rich would load from the web.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()
