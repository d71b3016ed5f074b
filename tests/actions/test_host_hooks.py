"""Hooks on this machine, in real shells: what they read and say, their time, and that nothing of them stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.actions.hooks import MAX_SAID_BYTES, Ended, run_on_host
from core.trust.hook_file import Hook, Moment


async def ended(folder: Path, command: str, line: bytes = b"{}\n", timeout_s: float = 20.0) -> Ended:
    async with asyncio.timeout(20):
        return await run_on_host(Hook(Moment.AFTER_ACTION, command, timeout_s=timeout_s), line, folder)


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("true", Ended(0)),
        ("exit 3", Ended(3)),
        ("echo out; echo err >&2", Ended(0, "err\n")),
        ("cat >&2; exit 2", Ended(2, '{"event": "x"}\n')),
        ("exec 0<&-; echo done >&2", Ended(0, "done\n")),
        ("printf '\\377' >&2", Ended(0, "\ufffd")),
        ("pwd | xargs basename >&2", Ended(0, "here\n")),
    ],
)
async def test_a_hook_reads_its_line_in_its_folder_and_is_read_at_standard_error(
    tmp_path: Path, command: str, result: Ended
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    assert await ended(folder, command, b'{"event": "x"}\n') == result


async def test_what_it_says_is_read_to_its_end_and_only_its_beginning_is_kept(tmp_path: Path) -> None:
    result = await ended(tmp_path, "printf a >&2; head -c 300000 /dev/zero | tr '\\0' b >&2; exit 1")
    assert result == Ended(1, "a" + "b" * (MAX_SAID_BYTES - 1))


async def test_one_that_does_not_read_a_long_line_is_no_failure(tmp_path: Path) -> None:
    assert await ended(tmp_path, "exec 0<&-; exit 0", b"x" * 1_000_000) == Ended(0)


async def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    result = await ended(tmp_path, "sleep 60 & echo $! > child; echo $$ > own; wait", timeout_s=1.0)
    assert result == Ended(None, is_late=True)
    for name in ("own", "child"):
        assert _is_gone(int((tmp_path / name).read_text()))


def _is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_one_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    assert await ended(tmp_path / "gone", "true") == Ended(None, "No such file or directory")
