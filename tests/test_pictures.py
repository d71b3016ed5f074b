"""The pictures of the documentation come from the running program, by a real browser."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.pictures import render, take


@pytest.mark.browser
async def test_picture_of_the_demo_is_taken_from_the_running_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDLOOM_HOME", str(tmp_path / "home"))
    svg = tmp_path / "demo.svg"
    svg.write_text(await take((80, 24), None), encoding="utf-8")
    told = svg.read_text("utf-8").replace("&#160;", " ")
    assert "The primes are right" in told
    assert "NO SANDBOX" in told
    png = render(svg, (80, 24))
    assert png is not None
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert width > 900
    assert height > 500
