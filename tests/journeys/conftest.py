"""What every journey needs: the program on a home and a workspace of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import NO_ISOLATION, Handloom


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path)


@pytest.fixture
def no_isolation(handloom: Handloom) -> None:
    """Run commands directly on this machine, for root and for an ordinary user alike."""
    handloom.environ = {**handloom.environ, **NO_ISOLATION}
