"""The log is rotated when it is full."""

import logging
from pathlib import Path

import pytest

from hubd.daemon import log


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("hubd", logging.INFO, __file__, 1, text, None, None)


def test_a_full_file_is_kept_under_another_name_and_the_oldest_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_BYTES", 10)
    handler = log.PrivateRotatingFile(tmp_path / "log", encoding="utf-8")
    for number in range(6):
        handler.emit(record(f"line {number} of text"))
    handler.close()
    texts = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert texts == {
        "log": "line 5 of text\n",
        "log.1": "line 4 of text\n",
        "log.2": "line 3 of text\n",
        "log.3": "line 2 of text\n",
    }


def test_a_file_with_room_is_continued(tmp_path: Path) -> None:
    for text in ("one", "two"):
        handler = log.PrivateRotatingFile(tmp_path / "log", encoding="utf-8")
        handler.emit(record(text))
        handler.close()
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_device_is_not_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MAX_BYTES", 1)
    (tmp_path / "log").symlink_to("/dev/null")
    handler = log.PrivateRotatingFile(tmp_path / "log", encoding="utf-8")
    handler.emit(record("text"))
    handler.close()
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
