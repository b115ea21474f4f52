"""The examples of docs/clients.md run."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support import Daemon, environment

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
PRINTED = [
    "1 hi\n2 hi\n",
    "hi\noutput hi\n",
    "pong\n",
    "1\n",
    "method_not_found Did you mean once?\n",
    "hi\n",
]


def test_the_examples_print_what_they_should(daemon: Daemon) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    constants = f"URL = {daemon.record['ws_url']!r}\nTOKEN_FILE = {daemon.paths.token!r}\n"
    outputs = []
    for example in examples:
        result = subprocess.run(
            [sys.executable, "-c", constants + example],
            capture_output=True,
            text=True,
            check=False,
            env=environment(HUBD_HOME=str(daemon.home)),
        )
        outputs.append(result.stdout or result.stderr)
    assert outputs == PRINTED
