"""The settings of a plugin: defaults, its section of `config.toml`, its variables."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import BaseModel, Field, model_validator

from hubd.activation import Activation
from hubd.activation.schema_cache import SchemaCache
from hubd.activation.settings import read_settings, variable
from hubd.config import read_file
from hubd.errors import InvalidParams
from hubd.plexus.discovery import BUILT_IN, Source
from hubd.plexus.host import PlexusHost
from hubd.plexus.root import build_hub


class Settings(BaseModel):
    days: float = Field(7, ge=0)
    loud: bool = False
    name: str = "nobody"


class Notes(Activation, namespace="notes", version="1.0.0"):
    """Has settings."""

    def read(self) -> Settings:
        return self.settings(Settings)


def read(section: Mapping[str, Any], path: str = "notes") -> Settings:
    return read_settings(Settings, path, section)


def test_an_absent_setting_has_its_default() -> None:
    assert read({}) == Settings(days=7, loud=False, name="nobody")


def test_a_variable_overrides_the_section_and_the_section_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    section = {"days": 3, "loud": True}
    assert read(section) == Settings(days=3, loud=True)
    monkeypatch.setenv("HUBD_NOTES_DAYS", "0.5")
    monkeypatch.setenv("HUBD_NOTES_LOUD", "false")
    assert read(section) == Settings(days=0.5, loud=False)


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("arbor", "scheduled_days", "HUBD_ARBOR_SCHEDULED_DAYS"),
        ("solar.earth", "mass", "HUBD_SOLAR_EARTH_MASS"),
        ("my-notes", "days", "HUBD_MY_NOTES_DAYS"),
    ],
)
def test_a_variable_is_named_by_the_path_and_the_field(path: str, name: str, expected: str) -> None:
    assert variable(path, name) == expected


def test_an_invalid_value_is_refused_with_its_setting_and_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InvalidParams, match=r"the setting notes\.days: .*greater than") as raised:
        read({"days": -1})
    assert "config.toml" in raised.value.suggestion
    assert "HUBD_NOTES_DAYS" in raised.value.suggestion
    monkeypatch.setenv("HUBD_NOTES_DAYS", "soon")
    with pytest.raises(InvalidParams, match=r"the setting notes\.days: .*valid number"):
        read({"days": 1})


def test_an_unknown_setting_is_refused_with_a_list_of_settings() -> None:
    with pytest.raises(InvalidParams, match=r"\[notes\] has no setting 'dayz'") as raised:
        read({"dayz": 1})
    assert raised.value.available == ["days", "loud", "name"]


def test_the_section_of_a_child_is_not_a_setting_of_its_parent() -> None:
    assert read({"days": 2, "below": {"days": 3}}) == Settings(days=2)


class Server(BaseModel):
    host: str = "localhost"
    port: int = 80


class Nested(BaseModel):
    server: Server = Server()
    spare: Server | None = None
    labels: dict[str, int] = {}


class Hosted(Activation, namespace="hosted", version="1.0.0"):
    """Declares its settings, and has a child."""

    settings_model = Nested

    def children(self) -> Iterable[Activation]:
        return [Notes()]


def test_a_setting_with_a_model_as_its_type_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    section = {"server": {"port": 8080}, "labels": {"a": 1}}
    assert read_settings(Nested, "notes", {}) == Nested()
    assert read_settings(Nested, "notes", section) == Nested(
        server=Server(port=8080), labels={"a": 1}
    )
    monkeypatch.setenv("HUBD_NOTES_SERVER_PORT", "1")
    monkeypatch.setenv("HUBD_NOTES_SPARE_HOST", "there")
    read_both = read_settings(Nested, "notes", section)
    assert read_both.server == Server(port=1)
    assert read_both.spare == Server(host="there")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"server": {"prt": 1}}, r"\[notes\.server\] has no setting 'prt'"),
        ({"server": {"port": "x"}}, r"the setting notes\.server\.port: "),
        ({"server": 1}, r"the setting notes\.server: "),
    ],
)
def test_a_mistake_inside_a_table_names_the_whole_path(
    section: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(InvalidParams, match=message):
        read_settings(Nested, "notes", section)


def test_a_table_for_a_plain_setting_is_refused() -> None:
    with pytest.raises(InvalidParams, match=r"the setting notes\.days: "):
        read({"days": {"from": 1}})


@pytest.mark.parametrize(
    "section", [{"server": {"port": "x"}}, {"sever": 1}, {"server": {"prt": 1}}]
)
def test_declared_settings_are_checked_when_the_plugin_is_attached(section: Any) -> None:
    hub = build_hub(settings={"hosted": section})
    with pytest.raises(InvalidParams):
        hub.attach(Hosted(), PlexusHost(hub))
    assert hub.root.children == {}


def test_a_table_that_is_neither_a_setting_nor_a_child_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub = build_hub(settings={"hosted": {"notes": {"days": 1}, "sever": {"port": 1}}})
    hub.attach(Hosted(), PlexusHost(hub))
    [record] = caplog.records
    assert record.getMessage() == (
        "config.toml: [hosted.sever] is neither a setting nor a child of hosted"
    )


def test_every_built_in_plugin_that_reads_settings_declares_them() -> None:
    declared = {
        target.rpartition(":")[2]
        for target in BUILT_IN
        if type(Source(target, "a test").load()).settings_model is not None
    }
    assert declared == {"Arbor", "Bash", "ClaudeCode", "Cone", "File", "Loopback", "Web"}


def test_a_plugin_reads_the_section_of_its_own_path(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[notes]\ndays = 2\nname = "ann"\n\n[other]\ndays = 9\n')
    hub = build_hub(settings=read_file(str(file)))
    notes = Notes()
    hub.attach(notes, PlexusHost(hub))
    assert notes.read() == Settings(days=2, name="ann")


def test_without_a_file_or_a_section_settings_have_their_defaults(tmp_path: Path) -> None:
    assert read_file(str(tmp_path / "config.toml")) == {}
    hub = build_hub(settings={"notes": "no table"})
    notes = Notes()
    hub.attach(notes, PlexusHost(hub))
    assert notes.read() == Settings(days=7, loud=False, name="nobody")


@pytest.mark.parametrize("content", [b"[notes", b"days = ", b"\xff\xfe"])
def test_an_invalid_configuration_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(content)
    with pytest.raises(InvalidParams, match=r"config\.toml cannot be read"):
        read_file(str(file))


class _Plain(BaseModel):
    days: int = 3


class _Checked(BaseModel):
    days: int = 3

    @model_validator(mode="after")
    def _double(self) -> Self:
        self.days *= 2
        return self


class _Required(BaseModel):
    days: int


@pytest.mark.parametrize("module", ["hubd.plugins.x", "other.plugin"])
def test_validators_also_check_settings_without_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    cache = SchemaCache()
    cache.open(tmp_path / "schemas.json")
    monkeypatch.setattr("hubd.activation.settings.SCHEMA_CACHE", cache)
    for model in (_Plain, _Checked, _Required):
        monkeypatch.setattr(model, "__module__", module)
    for _ in range(2):  # Without and with a cached result.
        assert read_settings(_Plain, "x", {}) == _Plain()
        assert read_settings(_Checked, "x", {}).days == 6
        with pytest.raises(InvalidParams, match=r"x\.days"):
            read_settings(_Required, "x", {})
