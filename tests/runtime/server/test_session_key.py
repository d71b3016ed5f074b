"""The session key: commands of the sandbox cannot find it in anything that they can read."""

from __future__ import annotations

import secrets
import shlex
import sys
from pathlib import Path

import pytest

from runtime.local.local_runtime import LocalRuntime
from tests.runtime.isolation.confined import isolated, repository, run

KEY = "5e55" * 16
ENDS = KEY[:8], KEY[8:]
PATTERN = r"'5e55\(5e55\)\{15\}'"
"""Composed by the search itself, so that the search does not find its own text."""

SEARCH = f"""
import glob, os, sys
key = b"".join([b"{ENDS[0]}", b"{ENDS[1]}"])
for folder in [f"/proc/{{pid}}" for pid in sys.argv[1:]] or glob.glob("/proc/[0-9]*"):
    if folder == f"/proc/{{os.getpid()}}":
        continue
    try:
        ranges = [line.split()[0].split("-") for line in open(folder + "/maps") if " r" in line and "[v" not in line]
        memory = open(folder + "/mem", "rb", 0)
    except OSError:
        continue
    for start, end in ranges:
        try:
            memory.seek(int(start, 16))
            if key in memory.read(int(end, 16) - int(start, 16)):
                print("FOUND in", open(folder + "/cmdline").read())
        except (OSError, ValueError, OverflowError):
            pass
print("searched")
"""
LOOKS = (
    "env",
    "cat /proc/*/environ /proc/*/cmdline",
    "ps auxeww",
    "find / -xdev -type f -size -2000k -newermt '-10 minutes' -print0 2>/dev/null | xargs -0 cat",
    "ls -R /tmp /dev/shm ~ .",
    "ulimit -c; sh -c 'kill -SEGV $$'; cat core* /tmp/core*",
)


@pytest.fixture(autouse=True)
def known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher uses a key that the test knows."""
    monkeypatch.setattr(secrets, "token_hex", lambda size: KEY)


MEMORY_SEARCH = f"{sys.executable} -I -c {shlex.quote(SEARCH)}"
"""Through the memory of every process, or of those whose numbers follow."""


@pytest.mark.bubblewrap
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_commands_cannot_find_the_key(tmp_path: Path) -> None:
    async with isolated(repository(tmp_path / "workspace")) as runtime:
        for look in LOOKS:
            assert KEY not in (await run(runtime, f"({look}) 2>&1 | grep -a -o {PATTERN} | head")).content, look
        searched = await run(runtime, MEMORY_SEARCH)
    assert searched.content.splitlines()[-1] == "searched"
    assert "FOUND" not in searched.content


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_search_finds_an_exposed_key(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path)
    await runtime.start()
    try:
        beside = await run(runtime, f"HELD={KEY} sleep 30 & {MEMORY_SEARCH} $!; kill $!")
    finally:
        await runtime.aclose()
    assert "FOUND in sleep" in beside.content


async def test_key_is_neither_logged_nor_left_in_a_file(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path)
    await runtime.start()
    try:
        assert runtime._folder is not None
        files = {file.name: file.read_bytes() for file in runtime._folder.path.rglob("*") if file.is_file()}
    finally:
        await runtime.aclose()
    assert "log" in files
    assert "key" not in files
    assert all(KEY.encode() not in content for content in files.values())
