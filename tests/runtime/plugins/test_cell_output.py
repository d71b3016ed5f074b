"""The bounds of what one cell may show, without a kernel."""

from __future__ import annotations

import base64
from typing import Any

from runtime.plugins.jupyter.cell_output import MAX_IMAGE_CHARS, Cell
from runtime.server.outputs import Outputs
from tests.runtime.plugins.test_jupyter import PNG


def displayed(picture: str) -> dict[str, Any]:
    return {"msg_type": "display_data", "content": {"data": {"image/png": picture}}}


def test_the_pictures_of_a_cell_are_bounded_all_together() -> None:
    large = base64.b64encode(base64.b64decode(PNG) + bytes(MAX_IMAGE_CHARS // 4)).decode()
    cell = Cell(1, Outputs())
    for picture in (large, large, large, PNG):
        cell.keep(displayed(picture), is_mine=True)
    assert 2 * len(large) < MAX_IMAGE_CHARS < 3 * len(large)
    assert cell.image_urls == [f"data:image/png;base64,{picture}" for picture in (large, large, PNG)]
    assert cell.content().endswith("[1 more images are not shown: too many, too large, or damaged.]")
    cell.close()
