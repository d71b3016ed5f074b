"""`handloom doctor` on terminals with and without graphics."""

from __future__ import annotations

import pytest

from tests.journeys.graphic_terminal import KITTY, SIXEL, GraphicTerminal
from tests.program import Handloom


@pytest.mark.parametrize(("kind", "found"), [(KITTY, "kitty graphics"), (SIXEL, "sixel graphics"), ("neither", "")])
def test_doctor_reports_how_pictures_are_drawn(handloom: Handloom, kind: str, found: str) -> None:
    terminal = GraphicTerminal(handloom, "doctor", kind=kind, DOCKER_HOST="unix:///nowhere/docker.sock")
    try:
        terminal.end()
        said = " ".join(terminal.raw.decode("utf-8", "replace").split())
        assert "16 M colours" in said
        assert (found in said) if found else ("graphics" not in said)
    finally:
        terminal.close()
