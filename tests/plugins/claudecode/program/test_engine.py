"""Which program answers: `claude`, the offline agent only when asked or told, never silently."""

from pathlib import Path

import pytest

from hubd.errors import Unavailable
from hubd.plugins.claudecode.program import locate
from hubd.plugins.claudecode.program.engine import (
    INSTALL,
    OFFLINE_PROGRAM,
    Engine,
    Settings,
    choose,
)

OFFLINE = Engine("offline", OFFLINE_PROGRAM)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which no `claude` is found."""
    monkeypatch.setattr(locate, "SYSTEM_PLACES", (str(tmp_path / "usr"),))
    monkeypatch.setattr(locate, "BUNDLE", "no_such_package")
    return {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}


@pytest.fixture
def somewhere(nowhere: dict[str, str]) -> dict[str, str]:
    """One in which it is."""
    program = Path(nowhere["PATH"]) / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return nowhere


def settings(**given: str) -> Settings:
    return Settings.model_validate(given)


@pytest.mark.parametrize("before", [None, "offline", "claude"])
@pytest.mark.parametrize("model", [None, "opus"])
def test_claude_is_chosen_if_it_is_found(
    somewhere: dict[str, str], model: str | None, before: str | None
) -> None:
    engine = choose(settings(), model, before, somewhere)
    assert engine == Engine("claude", (f"{somewhere['PATH']}/claude",))
    assert engine == choose(settings(engine="claude"), model, before, somewhere)


@pytest.mark.parametrize("engine", ["auto", "claude", "offline"])
def test_the_model_offline_chooses_the_offline_agent_without_a_warning(
    somewhere: dict[str, str], engine: str
) -> None:
    assert choose(settings(engine=engine), "offline", None, somewhere) == OFFLINE


@pytest.mark.parametrize("before", [None, "offline", "claude"])
def test_the_setting_offline_decides_for_every_session(
    somewhere: dict[str, str], before: str | None
) -> None:
    assert choose(settings(engine="offline"), "opus", before, somewhere) == OFFLINE


@pytest.mark.parametrize("before", [None, "offline"])
def test_without_claude_the_offline_agent_answers_with_advice_to_install_it(
    nowhere: dict[str, str], before: str | None
) -> None:
    engine = choose(settings(), "opus", before, nowhere)
    assert engine == Engine("offline", OFFLINE_PROGRAM, INSTALL)
    assert "pip install 'hubd[claude]'" in engine.advice


@pytest.mark.parametrize(("engine", "before"), [("auto", "claude"), ("claude", None)])
def test_a_session_of_claude_runs_only_on_claude(
    nowhere: dict[str, str], engine: str, before: str | None
) -> None:
    with pytest.raises(Unavailable, match="no claude program was found") as refused:
        choose(settings(engine=engine), None, before, nowhere)
    assert "offline" in refused.value.suggestion


def test_a_missing_configured_program_is_an_error(
    nowhere: dict[str, str],
) -> None:
    with pytest.raises(Unavailable, match="/no/such/claude"):
        choose(settings(program="/no/such/claude"), None, None, nowhere)


def test_the_configured_program_is_used(somewhere: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert choose(settings(program=str(other)), None, None, somewhere).program == (str(other),)


@pytest.mark.parametrize("wrong", [{"engine": "gpt"}, {"retention_days": -1}])
def test_invalid_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings.model_validate(wrong)
