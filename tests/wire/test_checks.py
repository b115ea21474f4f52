"""The checks that both doctors share."""

from pathlib import Path

import pytest

from hubd import __version__
from hubd.wire import checks
from hubd.wire.checks import Finding
from hubd.wire.paths import Paths


def test_a_home_that_can_be_created_passes(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path / "a" / "b"))
    assert checks.home(paths) == Finding("home", True, paths.data)
    assert not (tmp_path / "a").exists()


def test_a_home_below_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = checks.home(Paths(str(tmp_path / "file" / "home")))
    assert (finding.ok, "cannot be created" in finding.detail) == (False, True)


def test_a_home_that_others_can_read_fails_with_the_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    finding = checks.home(Paths(str(tmp_path)))
    assert (finding.ok, finding.detail.endswith(f"chmod 700 {tmp_path}")) == (False, True)


def test_a_socket_that_others_can_replace_fails(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert not checks.socket(Paths(str(tmp_path))).ok


def test_a_nearly_full_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths(str(tmp_path / "not" / "created"))
    assert checks.disk(paths).what == "disk"
    monkeypatch.setattr(checks, "LOW_DISK_BYTES", 2**62)
    assert not checks.disk(paths).ok


def test_another_major_version_fails() -> None:
    assert checks.versions("hubd", {"version": __version__}).ok
    assert checks.versions("hubd", None).ok
    assert not checks.versions("hubd", {"version": "99.0.0"}).ok


def test_findings_are_lines_or_json() -> None:
    findings = [Finding("disk", True, "1 MiB free"), Finding("home", False, "no")]
    assert checks.as_lines(findings) == ["ok   disk: 1 MiB free", "FAIL home: no"]
    assert checks.as_rows(findings)[1] == {"what": "home", "ok": False, "detail": "no"}
