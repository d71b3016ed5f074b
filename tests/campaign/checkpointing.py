"""Checkpoints of a workspace: kill (-9) the process that takes them at random moments, and swap in links.

After a kill, each file is as in one checkpoint or the other, the store can be read, and both checkpoints can be
restored completely. Whatever links are swapped in, nothing outside the workspace is stored or changed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from core.errors import CheckpointError
from runtime.checkpoints.checkpoint_store import FOLDER, WorkspaceCheckpoints
from runtime.checkpoints.shadow_git import object_id
from tests.campaign import swapper
from tests.campaign.swaps import MEMORY, check_outside, swapping
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.program import ROOT

KILLS_PROMISE = "each file is as before or as after, the store can be read, and everything can be restored whole"
SWAPS_PROMISE = "however links are swapped in, nothing outside is kept or changed"
KILLS_FULL, KILLS_SHORT = 200, 4
SWAPS_FULL, SWAPS_SHORT = 100, 2
ROUNDS = 10
"""Of taking and restoring in one trial with links."""
FILES = 60
LOOP_S = 1.5
"""Within which the taker is killed; it needs a third of a second to begin."""

Tree = dict[str, bytes]


def kills(trials: int, seed: int) -> Result:
    """So many kills."""
    return run_trials("checkpoint_kills", KILLS_PROMISE, kill_trial, range(seed, seed + trials), seed=seed)


def swaps(trials: int, seed: int) -> Result:
    """So many rounds with links that are swapped in."""
    return run_trials("checkpoint_swaps", SWAPS_PROMISE, swap_trial, range(seed, seed + trials), seed=seed)


def kill_trial(seed: int) -> Facts:
    """A process that restores the two checkpoints in turn until it is killed."""
    chance, facts = random.Random(seed), Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-checkpoints-") as name:
        base = Path(name)
        one, other = asyncio.run(_two(base, chance))
        trees = asyncio.run(_trees(base, one, other))
        moves = chance.randrange(3 * FILES) if chance.random() < 0.7 else 10**9
        command = [sys.executable, "-m", "tests.campaign.checkpointing", name, one, other, f"{moves}"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            if moves == 10**9:
                time.sleep(chance.uniform(0, LOOP_S))
                process.kill()
            facts.counts["restores before a kill"] += process.stdout.read().count(b"\n")
        nobody_is_left(within(5))
        now = _tree(base / "workspace")
        mixed = 0
        for path in {*now, *trees[0], *trees[1]}:
            check(now.get(path) in (trees[0].get(path), trees[1].get(path)), f"{path} is as it never was")
            mixed += now.get(path) != trees[0].get(path)
        facts.counts["kills between two files"] += 0 < mixed < sum(trees[0].get(p) != trees[1].get(p) for p in now)
        asyncio.run(_both_again(base, (one, other), trees))
    return facts


async def _two(base: Path, chance: random.Random) -> tuple[str, str]:
    """Two checkpoints that differ in most files."""
    workspace, taken = base / "workspace", []
    workspace.mkdir()
    for _ in range(2):
        for number in range(FILES):
            file = workspace / f"folder{number % 7}" / f"file{number}"
            file.parent.mkdir(exist_ok=True)
            file.unlink(missing_ok=True)
            if chance.random() < 0.8:
                file.write_bytes(chance.randbytes(chance.randrange(20_000)))
        taken.append((await WorkspaceCheckpoints(base / "home", str(workspace), "one").take("x")).id)
    return taken[0], taken[1]


async def _trees(base: Path, *checkpoints: str) -> list[Tree]:
    store, found = WorkspaceCheckpoints(base / "home", str(base / "workspace"), "one"), []
    for number, checkpoint in enumerate(checkpoints):
        await store.unpack(checkpoint, str(base / f"unpacked{number}"))
        found.append(_tree(base / f"unpacked{number}"))
    return found


async def _both_again(base: Path, checkpoints: tuple[str, str], trees: list[Tree]) -> None:
    store = WorkspaceCheckpoints(base / "home", str(base / "workspace"), "one")
    check(len(await store.list()) >= 2, "the store has lost a checkpoint")
    for checkpoint, tree in zip(checkpoints, trees, strict=True):
        await store.restore(checkpoint)
        check(_tree(base / "workspace") == tree, "what is restored is not what was kept")
    left = [path for path in os.listdir(base / "workspace") if path.startswith(".handloom")]
    check(not left, f"left in the workspace: {left}")


def _tree(folder: Path) -> Tree:
    ours = (path for path in folder.rglob("*") if path.is_file() and ".handloom-" not in str(path.relative_to(folder)))
    return {str(path.relative_to(folder)): path.read_bytes() for path in ours}


def swap_trial(seed: int) -> Facts:
    """Some rounds of taking and restoring in a folder where links to the outside come and go."""
    facts = Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-swaps-", dir=MEMORY if os.path.isdir(MEMORY) else None) as name:
        base = Path(name).resolve()
        swapper.prepare(base)
        with swapping(base):
            asyncio.run(_rounds(base, random.Random(seed), facts))
        check_outside(base)
        (repository,) = (base / "home" / FOLDER).glob("*/HEAD")
        for secret in (b"SECRET\n" * 100, b""):
            looked = ["git", f"--git-dir={repository.parent}", "cat-file", "-e", object_id(secret)]
            check(subprocess.run(looked, check=False, capture_output=True).returncode != 0, "the outside is kept")
    nobody_is_left(within(5))
    return facts


async def _rounds(base: Path, chance: random.Random, facts: Facts) -> None:
    store, taken = WorkspaceCheckpoints(base / "home", str(base / "root"), "one"), []
    for number in range(ROUNDS):
        (base / "root" / f"new{number}").write_text(f"{number}\n" * 100)
        try:
            taken.append((await store.take(str(number))).id)
            facts.counts["taken"] += 1
            await store.restore(chance.choice(taken))
            facts.counts["restored"] += 1
        except CheckpointError:
            facts.counts["refused"] += 1
        check_outside(base)


def _die_after(moves: int) -> None:
    """Have this process killed at one of the moves that put files into their places, which are over in no time."""
    left = iter(range(moves))

    def deadly(move: Callable[..., None]) -> Callable[..., None]:
        def moved(*names: str, **folders: int) -> None:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            move(*names, **folders)

        return moved

    os.replace, os.rename = deadly(os.replace), deadly(os.rename)


async def _for_ever(base: Path, one: str, other: str) -> None:
    store = WorkspaceCheckpoints(base / "home", str(base / "workspace"), "one")
    while True:
        for checkpoint in (one, other):
            sys.stdout.write("begin\n")
            sys.stdout.flush()
            await store.restore(checkpoint)


if __name__ == "__main__":
    _die_after(int(sys.argv[4]))
    asyncio.run(_for_ever(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
