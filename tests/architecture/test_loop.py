"""The event loop is never blocked: not by a call that waits, and not by work of more than 50 ms at a time."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.loop_watch import Watch
from tests.blocking import ROOT, BlockedLoop, LoopGuard
from tests.doubles import FINISH, bash, call, write_script

pytestmark = pytest.mark.alone

LIMIT_MS = 50.0
LIMIT_LOOPS = 8.0
"""Of the yardstick's: 50 ms where one takes 6 ms. The greater of both counts, because a slow machine takes longer."""


def coroutine_of_core(body: str) -> Any:
    """A coroutine whose file name is in core."""
    names: dict[str, Any] = {}
    exec(compile(f"async def work(path):\n    {body}", str(ROOT / "core" / "work.py"), "exec"), names)
    return names["work"]


@pytest.mark.parametrize("body", ["path.stat()", "path.unlink()", "__import__('time').sleep(0.001)"])
def test_blocking_call_in_core_is_caught_even_if_the_error_is_swallowed(
    body: str, tmp_path: Path, loop_guard: LoopGuard
) -> None:
    work = coroutine_of_core(f"\n    try: {body}\n    except Exception: pass".lstrip())
    with loop_guard.watching() as seen:
        asyncio.run(work(tmp_path / "x"))
    assert len(seen) == 1
    assert "core/work.py" in seen[0]


def test_blocking_call_of_the_test_itself_is_allowed(tmp_path: Path, loop_guard: LoopGuard) -> None:
    async def test() -> None:
        (tmp_path / "x").touch()
        (tmp_path / "x").stat()

    with loop_guard.watching() as seen:
        asyncio.run(test())
    assert seen == []
    with pytest.raises(BlockedLoop), loop_guard.watching():
        asyncio.run(coroutine_of_core("path.stat()")(tmp_path))


def test_loop_turn_over_50_ms_is_reported() -> None:
    async def burn() -> None:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.06:
            pass

    watch = Watch()
    with watch.watching():
        asyncio.run(burn())
    assert max(ms for ms, _, _ in watch.slowest) > LIMIT_MS


TRIES = 3
"""A busy machine makes callbacks slower, so the fastest of several runs counts."""


def test_no_loop_turn_takes_over_50_ms(tmp_path: Path) -> None:
    """Thread CPU time of each callback, so that a busy machine counts little, in processes of their own."""
    for attempt in range(TRIES):
        (folder := tmp_path / str(attempt)).mkdir()
        report = watched_sessions(folder)
        assert report["ends"] == ["finished", "finished", "error"]  # the long one has used up the script
        assert report["callbacks"] > 500
        limit_ms = max(LIMIT_MS, LIMIT_LOOPS * report["loop_ms"])
        slow = [(name, round(ms)) for name, ms in report["slowest"] if ms > limit_ms]
        if not slow:
            return
    pytest.fail(f"callbacks of more than {limit_ms:.0f} ms: {slow}")


def watched_sessions(folder: Path) -> dict[str, Any]:
    """What `loop_watch` says of a conversation with much output and of one with a long history."""
    big = "print('x' * 200_000)"
    turns: list[dict[str, Any]] = [
        {"text": "I look. " * 2000, "tokens_per_s": 100_000, "tool_calls": [bash("seq 1 200000")]},
        {"text": "And again.", "tool_calls": [bash(f'python3 -c "{big}"'), bash("ls -la /usr/bin")]},
        {
            "tool_calls": [
                call(
                    "str_replace_editor",
                    command="create",
                    path="{workspace}/a.txt",
                    file_text="line\n" * 20_000,
                    security_risk="LOW",
                ),
                bash("cat a.txt"),
            ]
        },
        *[{"tool_calls": [bash(f"echo {turn} {n}") for n in range(4)]} for turn in range(10)],
        FINISH,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tests.architecture.loop_watch", write_script(folder, turns), str(folder)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        cwd=ROOT,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report
