"""BrowserGym beside us: the pages of `tests/pages`, and MiniWoB's click-test through our evaluation mode."""

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

SCRIPT = Path(__file__).with_name("browsergym_pages.py")
ROOT = Path(__file__).parents[2]
RUN_TIMEOUT_S = 300
CLICK_TEST = "tests/runtime/plugins/test_evaluation.py"


def main(*, keep: bool) -> int:
    """Exit status: 0 all is equal or meant, 1 something is not, 2 BrowserGym could not be installed."""
    python = install(BROWSERGYM)
    if python is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-peers-") as folder:
        command = [str(python), "-P", str(SCRIPT), str(reading.FOLDER), folder, reading.program() or ""]
        subprocess.run(command, check=True, timeout=RUN_TIMEOUT_S)
        theirs = {name: json.loads((Path(folder) / f"{name}.json").read_text()) for name in reading.NAMES}
    if keep:
        for name, told in theirs.items():
            kept = json.dumps(comparison.kept(told), ensure_ascii=False, indent=1)
            (reading.FOLDER / f"{name}.json").write_text(f"{kept}\n")
    ours = asyncio.run(_read_all())
    styles = json.loads((reading.FOLDER / "styles.json").read_text())
    failed = 0
    for name in reading.NAMES:
        found = comparison.differences(name, theirs[name], ours[name])
        found += comparison.of_what_is_made(theirs[name]["made"], styles)
        failed += bool(found)
        elements = len(theirs[name]["states"][0]["elements"])
        print(f"{'BAD' if found else 'ok '}  {name:<20} {len(ours[name]['states'])} states, {elements} elements")
        print(*(f"       {line}\n" for line in found), sep="", end="")
    for name, _, reason in comparison.MEANT:
        print(f"meant  {name:<18} {reason}")
    print(f"{BROWSERGYM.requirements[0]}: {len(theirs)} pages, {failed} told otherwise than BrowserGym tells them")
    tests = [sys.executable, "-m", "pytest", "-q", CLICK_TEST]
    won = subprocess.run(tests, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False).returncode == 0
    print(f"{'ok ' if won else 'BAD'}  MiniWoB's click-test through evaluation mode, three seeds")
    return int(failed > 0 or not won)


async def _read_all() -> dict[str, dict[str, Any]]:
    async with reading.browser() as browser:
        return {name: await reading.read(browser, name) for name in reading.NAMES}
