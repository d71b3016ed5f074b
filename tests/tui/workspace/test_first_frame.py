"""The first frame waits for nothing that it does not draw, and does not keep the loop from its work afterwards."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tests.blocking import ROOT
from tests.tui.workspace.running_app import Running

HEAVY = ["litellm", "docker", "playwright", "jupyter_client", "mcp", "pydantic", "aiosqlite", "aiohttp", "pyte", "yaml"]

PROGRAM = """
import asyncio, json, sys
from tui.app import HandloomApp
from tui.cli.options import StartOptions

class Looking(HandloomApp):
    def begin(self, problems):
        sys.stderr.write(json.dumps(sorted(sys.modules)))
        self.exit()

async def connect():
    raise AssertionError("nothing may connect before the first frame")

Looking(connect, StartOptions(workspace="/work", model="demo")).run(headless=True)
"""


def test_first_frame_imports_no_more_than_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    modules = json.loads(done.stderr)
    assert [name for name in HEAVY if name in modules] == []
    ours = [name for name in modules if name.startswith("core.")]
    assert ours == ["core.environment", "core.regular_files", "core.settings", "core.settings.screen_settings"]
    assert "tui.workspace.screen" in modules


async def test_idle_workspace_does_nothing(it: Running) -> None:
    await it.settle()
    assert it.app.frames.timer is None
    assert it.app.frames.elapsed_timer is not None
    assert not it.app.frames.elapsed_timer._active.is_set()


def test_no_input_has_a_blinking_cursor() -> None:
    """A blinking cursor wakes an idle program twice a second, and its terminal with it."""
    found = [p.name for p in (ROOT / "tui").rglob("*.py") if re.search(r"(?<!\w)Input\(", p.read_text("utf-8"))]
    assert found == []
