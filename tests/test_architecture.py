"""The imports follow the table of layers, and commands import little."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support import environment

ROOT = Path(__file__).parent.parent
# Names of plugins that are also a shell, an option and a browser.
ORDINARY_WORDS = {"bash", "file", "web"}
# A method with its namespace.
METHOD_PATH = re.compile(r"[a-z_]+(\.[a-z_]+)+")

BASE = {"hubd.wire", "hubd.errors"}

MAY_IMPORT = {
    "hubd.wire": set[str](),
    "hubd.errors": {"hubd.wire"},
    "hubd.storage": BASE,
    "hubd.mustache": BASE,
    # Child processes. Plugins reach it through their host only.
    "hubd.process": BASE,
    "hubd.activation": {*BASE, "hubd.storage", "hubd.mustache"},
    "hubd.plexus": {
        *BASE,
        "hubd.process",
        "hubd.storage",
        "hubd.mustache",
        "hubd.activation",
    },
    "hubd.rpc": {*BASE, "hubd.plexus"},
    "hubd.mcp": {*BASE, "hubd.plexus", "hubd.rpc"},
    "hubd.page": {*BASE, "hubd.plexus", "hubd.rpc"},
    "hubd.conversations": {*BASE, "hubd.storage", "hubd.activation"},
    # A program that plugins start; they share the names of its session files.
    "hubd.offline_agent": {"hubd.wire"},
    "hubd.plugins": {
        *BASE,
        "hubd.storage",
        "hubd.mustache",
        "hubd.activation",
        "hubd.conversations",
        "hubd.offline_agent",
    },
    # For other Python programs, and for the tests of plugins.
    "hubd.client": BASE,
    "hubd.testing": {*BASE, "hubd.storage", "hubd.activation", "hubd.plexus", "hubd.client"},
    "synapse": {"hubd.wire"},
}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    trees = []
    for path in sorted([*(ROOT / "hubd").rglob("*.py"), *(ROOT / "synapse").rglob("*.py")]):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        trees.append((name, ast.parse(path.read_text())))
    return trees


def layer_of(module: str) -> str | None:
    return next((layer for layer in MAY_IMPORT if f"{module}.".startswith(f"{layer}.")), None)


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "relative imports are not used"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_layer_imports_only_the_layers_below_it() -> None:
    strays = []
    for module, tree in modules():
        layer = layer_of(module)
        if layer is None:
            continue
        for name in imported(tree):
            # `hubd` itself holds nothing but the version.
            if name.startswith("hubd.") and name != "hubd.__version__":
                target = layer_of(name)
                if target != layer and target not in MAY_IMPORT[layer]:
                    strays.append(f"{module} imports {name}")
    assert strays == []


def test_conversations_contain_no_sql() -> None:
    for module, tree in modules():
        if layer_of(module) == "hubd.conversations":
            texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            assert not [text for text in texts if "SELECT " in str(text)], module


def test_the_wire_is_standard_library_only() -> None:
    for module, tree in modules():
        if layer_of(module) == "hubd.wire":
            roots = {name.partition(".")[0] for name in imported(tree)}
            assert roots <= sys.stdlib_module_names | {"hubd"}, module


def test_nothing_outside_a_plugins_file_names_the_plugin() -> None:
    plugins = {path.stem for path in (ROOT / "hubd" / "plugins").iterdir()}
    assert plugins >= {"echo", "arbor", "claudecode"}
    for module, tree in modules():
        if module == "hubd.plexus.discovery" or layer_of(module) == "hubd.plugins":
            continue
        for name in imported(tree):
            assert not name.startswith("hubd.plugins"), module
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node.value not in ORDINARY_WORDS:
                    assert node.value not in plugins, f"{module} names the plugin {node.value}"
                # `hubd doctor` calls the hub as any client does.
                if module != "hubd.daemon.doctor" and METHOD_PATH.fullmatch(node.value):
                    plugin = node.value.partition(".")[0]
                    assert plugin not in plugins, f"{module} names the method {node.value}"


@cache
def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running some code."""
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    return set(result.stdout.split())


@pytest.mark.parametrize(
    ("code", "banned"),
    [
        ("import hubd", {"asyncio", "json", "typing", "pydantic"}),
        (
            "import hubd.wire.paths",
            {"asyncio", "json", "typing", "pathlib", "re", "dataclasses"},
        ),
        ("import hubd.cli", {"asyncio", "pydantic", "websockets", "sqlite3", "logging"}),
        ("import hubd.daemon.control", {"asyncio", "pydantic", "websockets", "sqlite3"}),
        (
            "import synapse.main, synapse.fastpath, synapse.complete",
            {
                "asyncio",
                "pydantic",
                "websockets",
                "typer",
                "rich",
                "click",
                "json",
                "typing",
                "re",
                "dataclasses",
                "pathlib",
                "socket",
                "enum",
            },
        ),
        (
            # A call in a pipe.
            "import synapse.main, synapse.fastpath",
            {"__future__", "zlib", "_json", "synapse.params.convert", "synapse.preferences"},
        ),
        (
            # Help in a pipe.
            "import synapse.main, synapse.command, synapse.overview, synapse.help\n"
            "import synapse.render.pager",
            {"typing", "re", "json", "enum", "functools", "subprocess", "shutil", "textwrap"},
        ),
        ("import hubd.daemon.run", {"websockets", "aiosqlite", "mcp", "typer", "rich"}),
        (
            "from hubd.plexus.discovery import BUILT_IN, Source\n"
            "for target in BUILT_IN: Source(target, '').load()",
            {
                "httpx2",
                "httpcore2",
                "anyio",
                "anthropic",
                "openai",
                "mcp",
                "html",
                "difflib",
                "mimetypes",
            },
        ),
    ],
)
def test_commands_do_not_import_slow_modules(code: str, banned: set[str]) -> None:
    baseline = loaded_by("pass")
    assert (loaded_by(code) - baseline) & banned == set()
