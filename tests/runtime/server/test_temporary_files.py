"""Files in folders that everybody can write to have unpredictable names and are private."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from core.events import CmdRunAction, FileWriteAction
from runtime.local.local_runtime import LocalRuntime
from runtime.server import outputs
from tests.runtime.conftest import Watcher


async def made_by_a_run(folder: Path, shared: Path) -> dict[str, int]:
    """The names of a sandbox's temporary files, with their modes."""
    runtime = LocalRuntime(folder)
    await runtime.start()
    try:
        much = CmdRunAction(command="seq 100000")
        await runtime.execute(much, 1, Watcher())
        await runtime.execute(FileWriteAction(path="f", content="x"), 2, Watcher())
        (ours,) = shared.glob(f"handloom-{os.geteuid()}")
        return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (*shared.iterdir(), *ours.iterdir())}
    finally:
        await runtime.aclose()


async def test_temporary_folders_are_private_with_random_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:  # short, for a socket
        monkeypatch.setattr(tempfile, "tempdir", shared)
        monkeypatch.setenv("TMPDIR", shared)
        one, two = [await made_by_a_run(tmp_path, Path(shared)) for _ in range(2)]
        assert one
        assert {*one.values(), *two.values()} == {0o700}
        assert one.keys() & two.keys() == {f"handloom-{os.geteuid()}"}, "only the folder of all of ours stays"
        assert len(one) > 1
        assert [path.name for path in Path(shared).rglob("*")] == [f"handloom-{os.geteuid()}"], "nothing is left in it"


def test_guessed_name_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attacker has created links and folders under the next names: none is followed, used or changed."""
    bait = tmp_path / "bait"
    bait.mkdir()
    places = tmp_path / "shared"
    places.mkdir()
    names = iter(["first", "second", "third"] * 3)
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: names)
    (places / f"{outputs.PREFIX}first").symlink_to(bait)
    (places / f"{outputs.PREFIX}second").mkdir()
    with ExitStack() as stack:
        folder, lock = outputs._private_folder([str(places)])
        stack.callback(os.close, lock)
    assert folder == f"{places}/{outputs.PREFIX}third"
    assert stat.S_IMODE(os.lstat(folder).st_mode) == 0o700
    assert os.listdir(bait) == []
