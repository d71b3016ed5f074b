"""The agent plots a figure, opens a page that it has just written, presses its button, and reads the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.store.blobs import BlobRef
from tests.program import ROOT, Handloom

SESSION = ROOT / "tests" / "sessions" / "figure_and_page.yaml"


@pytest.mark.browser
def test_agent_plots_opens_clicks_and_reads(tmp_path: Path) -> None:
    """The session itself checks the result of each step, and ends with an error if one differs."""
    handloom = Handloom(tmp_path, HANDLOOM__AGENT__CONFIRM="never")
    done = handloom("run", "Show me a wave.", "--model", f"scripted:{SESSION}", "--json", within_s=90)
    assert done.status == 0, done.err + done.out[-2000:]
    states = [event for event in done.events if event.get("observation") == "agent_state_changed"]
    assert states[-1]["extras"]["agent_state"] == "finished"
    (cell,) = [event for event in done.events if event.get("observation") == "run_ipython"]
    figure = BlobRef.parse(cell["extras"]["image_urls"][0])
    assert figure is not None
    assert figure.media_type == "image/png"
    assert figure.width > 400
    pages = [event["extras"] for event in done.events if event.get("observation") == "browse"]
    assert [page["url"] for page in pages] == ["http://localhost:8765/"] * 2
    assert len({page["screenshot"] for page in pages}) == 2, "the second picture shows another number"
    assert all(BlobRef.parse(page["screenshot"]) for page in pages)
