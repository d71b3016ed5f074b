"""BrowserGym beside us: the pages of `tests/pages`, and MiniWoB's click-test through our evaluation mode.

Both sides read the pages in one Chromium program, each in one browser of its own for all of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.pages import comparison, reading
from tests.peers.installing import BROWSERGYM, install
from tests.program import ROOT

SCRIPT = Path(__file__).with_name("browsergym_pages.py")
RUN_TIMEOUT_S = 300
CLICK_TEST = "tests/runtime/plugins/test_evaluation.py"
STYLES: list[dict[str, Any]] = json.loads((reading.FOLDER / "styles.json").read_text("utf-8"))

Pages = dict[str, dict[str, Any]]
"""The observations of one side, by page."""


def main() -> int:
    """Exit status: 0 all is equal or meant, 1 something is not, 2 BrowserGym could not be installed."""
    python = install(BROWSERGYM)
    if python is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        theirs = read_by_browsergym(python, Path(folder))
    ours = read_by_us()
    failed = 0
    for name in reading.NAMES:
        found = differences(name, theirs, ours)
        failed += bool(found)
        elements = len(theirs[name]["states"][0]["elements"])
        print(f"{'BAD' if found else 'ok '}  {name:<20} {len(ours[name]['states'])} states, {elements} elements")
        print(*(f"       {line}\n" for line in found), sep="", end="")
    for name, _, reason in comparison.MEANT:
        print(f"meant  {name:<18} {reason}")
    print(f"{BROWSERGYM.title}: {len(theirs)} pages, {failed} told otherwise than BrowserGym tells them")
    tests = [sys.executable, "-m", "pytest", "-q", CLICK_TEST]
    won = subprocess.run(tests, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False).returncode == 0
    print(f"{'ok ' if won else 'BAD'}  MiniWoB's click-test through evaluation mode, three seeds")
    return int(failed > 0 or not won)


def read_by_browsergym(python: Path, folder: Path) -> Pages:
    """Their side of all pages, read into `folder`."""
    command = [str(python), "-P", str(SCRIPT), str(reading.FOLDER), str(folder), asyncio.run(reading.program())]
    subprocess.run(command, check=True, timeout=RUN_TIMEOUT_S)
    return {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in reading.NAMES}


def read_by_us() -> Pages:
    """Our side of all pages."""

    async def read_all() -> Pages:
        async with reading.browser() as browser:
            return {name: await reading.read(browser, name) for name in reading.NAMES}

    return asyncio.run(read_all())


def differences(name: str, theirs: Pages, ours: Pages) -> list[str]:
    """The differences in the observations of one page, and in pure functions' results for BrowserGym's data."""
    return [
        *comparison.differences(name, theirs[name], ours[name]),
        *comparison.of_what_is_made(theirs[name]["made"], STYLES),
    ]
