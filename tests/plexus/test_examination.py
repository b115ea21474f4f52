"""The checks of plugins for `hubd doctor`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from hubd.activation import Activation, Finding
from hubd.plexus import lifecycle
from hubd.plugins.claudecode.program.examination import examine_program
from hubd.plugins.health import HealthPlugin
from tests.fakes.agent_process import claude_program
from tests.support import Daemon, call_events, hub_with, hubd


class Printer(Activation, namespace="printer", version="1.0.0"):
    """Needs a printer."""

    async def examine(self) -> Sequence[Finding]:
        return [Finding("printer", True, "has paper")]


class Torn(Activation, namespace="torn", version="1.0.0"):
    """Its check is wrong."""

    async def examine(self) -> Sequence[Finding]:
        raise ValueError("no printer")


class Slow(Activation, namespace="slow", version="1.0.0"):
    """Its check does not end."""

    async def examine(self) -> Sequence[Finding]:
        await asyncio.Event().wait()
        return []


async def test_plugins_report_what_they_find_only_when_they_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "EXAMINE_SECONDS", 0.05)
    async with hub_with(tmp_path, HealthPlugin(), Printer(), Torn(), Slow()) as hub:
        [plain] = await call_events(hub, "health.check")
        assert plain["status"] == "healthy"
        assert not plain.get("findings")
        [report] = await call_events(hub, "health.check", thorough=True)
        assert report["status"] == "degraded"
        findings = {row["what"]: (row["ok"], row["detail"]) for row in report["findings"]}
        assert findings == {
            "search": (True, "0 texts indexed, 0 rows waiting"),
            "printer": (True, "has paper"),
            "torn": (False, "its checks failed: ValueError: no printer"),
            "slow": (False, "its checks took longer than 0.05 s"),
        }


@pytest.mark.claude
async def test_an_installed_claude_can_continue_a_waiting_call() -> None:
    finding = await examine_program(claude_program())
    assert finding.ok, finding
    assert "continues a tool call" in finding.detail


async def test_a_claude_that_cannot_continue_a_call_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    finding = await examine_program(str(program))
    assert not finding.ok
    assert "is lost when the hub stops" in finding.detail


def test_doctor_shows_the_findings_of_plugins(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        daemon.stop()
        daemon.variables = {"HUBD_CLAUDECODE_PROGRAM": str(tmp_path / "missing")}
        daemon.start()
        output = hubd("doctor", home=daemon.home)
        assert "FAIL claude: " in output.stdout
