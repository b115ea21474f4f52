"""The documentation is true: its tables are the code's, its example runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from hubd.config import SETTINGS
from hubd.plugins.arbor.holding import Settings as ArborSettings
from hubd.plugins.claudecode.program.engine import Settings as ClaudeSettings
from hubd.plugins.cone.providers.provider import Settings as ConeSettings
from hubd.wire.item import EXIT_CODES
from tests.support import HUBD, Daemon, environment
from tests.test_architecture import MAY_IMPORT

ROOT = Path(__file__).parent.parent
SYNAPSE = (sys.executable, "-m", "synapse")
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def command_after(marker: str) -> str:
    found = re.search(rf"<!-- {marker} command -->\n```bash\n(.*?)\n```", README)
    assert found is not None
    return found[1]


def test_the_table_of_settings_is_the_one_in_the_code() -> None:
    rows = [
        f"| `{option}` | {f'`{variable}`' if variable else ''} | {default} | {meaning} |"
        for option, variable, default, meaning in SETTINGS
    ]
    for row in rows:
        assert row.replace("|  |", "| |") in README, row


def test_the_table_of_plugin_settings_is_the_one_in_the_code() -> None:
    sections = (("arbor", ArborSettings), ("claudecode", ClaudeSettings), ("cone", ConeSettings))
    for section, model in sections:
        for name, field in model.model_fields.items():
            default = "none" if field.default is None else str(field.default)
            assert f"| `{section}` | `{name}` | {default} | " in README, name


def test_the_layer_table_is_the_one_that_is_tested() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    for layer, allowed in MAY_IMPORT.items():
        short = [name.removeprefix("hubd.") for name in allowed]
        order = ["wire", "errors", "storage", "mustache", "activation", "plexus", "rpc"]
        order += ["conversations", "offline_agent"]
        names = " ".join(sorted(short, key=order.index))
        row = f"| `{layer.removeprefix('hubd.')}` | {f'`{names}`' if names else ''}"
        assert row.rstrip(" |") in architecture, row


def test_the_try_command_calls_a_method_that_exists(daemon: Daemon) -> None:
    words = shlex.split(command_after("try").partition("/synapse ")[2])
    printed = subprocess.run(
        [*SYNAPSE, "--home", str(daemon.home), *words],
        env=environment(),
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    # What is being said at the moment comes in pieces of any size, between what is kept.
    said = iter(printed.splitlines())
    shown = blocks("json")[0].splitlines()
    assert [line for line in shown if line not in said] == []


def test_the_plugin_in_the_readme_works(tmp_path: Path) -> None:
    [code] = blocks("python")
    (tmp_path / "my_module.py").write_text(code)
    home = tmp_path / "home"
    environment_with_plugin = environment(PYTHONPATH=f"{tmp_path}:{ROOT}")

    def run(*command: str) -> str:
        return subprocess.run(
            [*command, "--home", str(home)],
            env=environment_with_plugin,
            capture_output=True,
            check=True,
            text=True,
        ).stdout

    run(*HUBD, "start", "--port", "0", "--plugin", "my_module:Notes")
    try:
        handle = run(*SYNAPSE, "notes", "add", "--text", "buy milk").split('"')[-2]
        assert handle.startswith("notes@1.0.0::add:")
        assert "buy milk" in run(*SYNAPSE, "plexus", "resolve_handle", "--handle", handle)
    finally:
        run(*HUBD, "stop")


def test_every_exit_status_of_the_error_table_is_documented() -> None:
    [line] = re.findall(r"^Exit status of `hubd`:(.*?)\n\n", README, re.MULTILINE | re.DOTALL)
    documented = {int(number) for number in re.findall(r"(?:^|·)\s*(\d)\s", line.strip())}
    assert documented == {0, *EXIT_CODES.values()}
