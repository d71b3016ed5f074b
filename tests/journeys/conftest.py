"""What every journey needs: the program on a home and a workspace of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import Handloom


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path)
