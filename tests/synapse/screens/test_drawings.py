"""Every view at a pseudo-terminal looks as in the files of `drawings`, which are easy to review."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.synapse.screens.drawings import DIRECTORY, VIEWS, WIDTHS, draw, path


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_looks_as_it_is_drawn(cli_home: Path, name: str, columns: int) -> None:
    drawing = draw(name, columns, cli_home)
    assert drawing == path(name, columns).read_text()
    assert max(map(cell_len, drawing.splitlines())) <= columns


def test_every_drawing_belongs_to_a_view() -> None:
    expected = {path(name, columns) for name in VIEWS for columns in WIDTHS}
    assert set(DIRECTORY.glob("*/*")) == expected
