"""The documentation is true: its tables are the code's, its examples print the output it shows."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubd.config import SETTINGS
from hubd.plugins.arbor.lifecycle import Settings as ArborSettings
from hubd.plugins.bash.settings import Settings as BashSettings
from hubd.plugins.claudecode.program.engine import Settings as ClaudeSettings
from hubd.plugins.cone.providers.provider import Settings as ConeSettings
from hubd.plugins.file.plugin import Settings as FileSettings
from hubd.plugins.loopback.settings import Settings as LoopbackSettings
from hubd.plugins.web.plugin import Settings as WebSettings
from hubd.testing import hub
from hubd.wire.item import EXIT_CODES
from tests import schema_file
from tests.docs.console_examples import difference, examples_of, run
from tests.support import HUBD, Daemon, environment
from tests.test_architecture import MAY_IMPORT

ROOT = Path(__file__).parent.parent.parent
SYNAPSE = (sys.executable, "-m", "synapse")
README = (ROOT / "README.md").read_text()
OPERATIONS = (ROOT / "docs/operations.md").read_text()
PAGES = [
    "README.md",
    "docs/approvals.md",
    "docs/cli.md",
    "docs/conversations.md",
    "docs/search.md",
    "docs/sources.md",
]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def command_after(marker: str) -> str:
    match = re.search(rf"<!-- {marker} command -->\n```bash\n(.*?)\n```", README)
    assert match is not None
    return match[1]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, because long ones fold lines of the output."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.parametrize("page", PAGES)
def test_each_command_of_a_page_prints_what_the_page_shows(page: str, folder: Path) -> None:
    programs = Path(sys.executable).parent
    home = folder / "home"
    home.mkdir()
    variables = environment(
        HOME=str(home),
        HUBD_HOME=str(folder / "hub"),
        HUBD_PORT="0",
        HUBD_MCP_PORT="0",
        PAGER="cat",
        PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
    )
    schema_file.bring(folder / "hub")
    examples = examples_of(ROOT / page)
    try:
        outputs = run(examples, folder, variables)
    finally:
        subprocess.run([*HUBD, "stop"], env=variables, capture_output=True, check=False)
    pairs = zip(examples, outputs, strict=True)
    differences = [text for pair in pairs if (text := difference(*pair)) is not None]
    assert not differences, "\n".join(differences)


def test_every_link_between_pages_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    missing = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert missing == []


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_the_table_of_settings_is_the_one_in_the_code() -> None:
    rows = [
        f"| `{option}` | {f'`{variable}`' if variable else ''} | {default} | {meaning} |"
        for option, variable, default, meaning in SETTINGS
    ]
    for row in rows:
        assert row.replace("|  |", "| |") in OPERATIONS, row


def test_the_table_of_plugin_settings_is_the_one_in_the_code() -> None:
    sections = (
        ("arbor", ArborSettings),
        ("bash", BashSettings),
        ("claudecode", ClaudeSettings),
        ("cone", ConeSettings),
        ("file", FileSettings),
        ("loopback", LoopbackSettings),
        ("web", WebSettings),
    )
    for section, model in sections:
        for name, field in model.model_fields.items():
            default = str(field.default).lower()
            assert f"| `{section}` | `{name}` | {default} | " in OPERATIONS, name


def test_the_table_of_commands_has_every_command_of_hubd() -> None:
    usage = subprocess.run([*HUBD, "--help"], env=environment(), capture_output=True, check=True)
    commands = re.findall(r"^    ([a-z]+) ", usage.stdout.decode(), re.MULTILINE)
    table = OPERATIONS.partition("## Commands")[2].partition("\n\nExit")[0]
    documented = [name for row in table.splitlines() for name in re.findall("`(.*?)`", row)]
    names = {name.removeprefix("hubd ").split()[0] for name in documented}
    assert names == set(commands)


def test_the_layer_table_is_the_one_that_is_tested() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    for layer, allowed in MAY_IMPORT.items():
        short = [name.removeprefix("hubd.") for name in allowed]
        order = ["wire", "errors", "process", "storage", "mustache", "activation", "plexus", "rpc"]
        order += ["conversations", "offline_agent", "client"]
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
    # Live pieces of the text, of any size, come between the durable events.
    printed_lines = iter(printed.splitlines())
    expected = blocks(README, "json")[0].splitlines()
    assert [line for line in expected if line not in printed_lines] == []


async def test_the_resolver_for_many_handles_of_the_guide_works() -> None:
    plugin, *others = blocks((ROOT / "docs/plugins.md").read_text(), "python")
    [many] = [code for code in others if "many=True" in code]
    # The guide shows it as another way to write the plugin's resolver.
    single = plugin.index("    @resolver")
    module: dict[str, Any] = {"__name__": "notes_plugin"}
    exec(f"import json\n{plugin[:single]}{many}", module)
    async with hub(module["Notes"]()) as running:
        refs = [(await running.call_one("notes.add", text=text))["ref"] for text in ("a", "b")]
        missing = f"{refs[0][:-4]}0000"
        handles = [refs[1], missing, refs[0]]
        results = [each async for each in running.call("plexus.resolve_handle", handle=handles)]
    assert [result.get("code", result.get("summary")) for result in results] == [
        "b",
        "handle_target_missing",
        "a",
    ]


def test_the_plugin_of_the_guide_works(tmp_path: Path) -> None:
    code = blocks((ROOT / "docs/plugins.md").read_text(), "python")[0]
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

    schema_file.bring(home)
    run(*HUBD, "start", "--port", "0", "--plugin", "my_module:Notes")
    try:
        handle = run(*SYNAPSE, "notes", "add", "--text", "buy milk").split('"')[-2]
        assert handle.startswith("notes@1.0.0::add:")
        assert "buy milk" in run(*SYNAPSE, "plexus", "resolve_handle", "--handle", handle)
    finally:
        run(*HUBD, "stop")


def test_every_exit_status_of_the_error_table_is_documented() -> None:
    [line] = re.findall(r"^Exit status of `hubd`:(.*?)\n\n", OPERATIONS, re.MULTILINE | re.DOTALL)
    documented = {int(number) for number in re.findall(r"(?:^|·)\s*(\d)\s", line.strip())}
    assert documented == {0, *EXIT_CODES.values()}


def test_every_module_that_the_architecture_names_exists() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    names = set(re.findall(r"`([a-z_/]+\.py)`", architecture))
    modules = [
        path.as_posix()
        for folder in ("hubd", "synapse", "tests")
        for path in ROOT.glob(f"{folder}/**/*.py")
    ]
    missing = [name for name in names if not any(path.endswith(f"/{name}") for path in modules)]
    assert sorted(missing) == []
