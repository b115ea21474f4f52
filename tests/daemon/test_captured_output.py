"""Descriptors that lead to the log keep leading there when it is rotated."""

import os
from pathlib import Path

from hubd.daemon.log import PrivateRotatingFile


def test_a_descriptor_refers_to_the_current_file_after_a_rotation(tmp_path: Path) -> None:
    file = tmp_path / "log"
    handler = PrivateRotatingFile(file, encoding="utf-8")
    descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
        handler.follow(descriptor)
        os.write(descriptor, b"old\n")
        handler.rotate()
        os.write(descriptor, b"new\n")
    finally:
        handler.close()
        os.close(descriptor)
    assert (tmp_path / "log.1").read_text() == "old\n"
    assert file.read_text() == "new\n"
