"""The file of a session is followed while its agent writes it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tui.file_watcher import watch


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")
async def test_file_that_another_replaces_is_followed(tmp_path: Path) -> None:
    path, changed = tmp_path / "session.jsonl", asyncio.Event()
    path.write_text("first\n")
    followed = watch(path, changed.set)
    assert followed is not None
    path.with_suffix(".new").write_text("second\n")
    for change in (lambda: os.replace(path.with_suffix(".new"), path), lambda: path.write_text("third\n")):
        change()
        async with asyncio.timeout(30):
            await changed.wait()
        changed.clear()
    followed.close()
