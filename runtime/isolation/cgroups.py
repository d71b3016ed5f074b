"""Limits for all processes of a sandbox together, using the kernel's control groups.

Root can make groups, and a user can below what systemd has delegated. Otherwise only the limits for each process
(`runtime.server.main`) apply; `applied` says what does. Both versions of control groups are supported; see cgroups(7).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
"""Period over which CPU time is counted, as in the kernel's default."""
EVERY = frozenset({"memory", "cpu", "pids"})
MB = 1024 * 1024
_UNBOUNDED = 2**62
"""The first version writes a number near 2**63 for no limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a sandbox; None sets no limit."""

    memory_bytes: int | None = None
    """For all processes together; the one that asks for more is killed."""
    memory_of_each_bytes: int | None = None
    """Where no group limits them together: for each process, where an allocation beyond it fails, and for all."""
    cpus: float | None = None
    """CPU time per time; 1.5 is one and a half processors."""
    processes: int | None = None
    """Processes and threads at once."""
    file_bytes: int | None = None
    """The largest file that can be written."""
    free_bytes: int | None = None
    """Free space that must remain on the workspace's disk; running commands are ended if there is less."""


class ControlGroup:
    """A control group for one sandbox. Its methods block for milliseconds."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._limits = limits
        self._folders: list[Path] = []
        self.applied: frozenset[str] = frozenset()
        """Which of `memory`, `cpu` and `pids` are in force."""

    def make(self) -> list[Path]:
        """Make the group; a process joins by writing its ID into each of the returned files."""
        applied: set[str] = set()
        for controller, files in self._wanted().items():
            for folder in _places(controller, self._name):
                if _make(folder, controller, files):
                    applied.add(controller)
                    if folder not in self._folders:
                        self._folders.append(folder)
                    break
        self.applied = frozenset(applied)
        return [folder / "cgroup.procs" for folder in self._folders]

    def killed_for_memory(self) -> int:
        """Return how many of its processes were killed for lack of memory since the group was made."""
        return next((kills for folder in self._folders if (kills := _kills_in(folder)) is not None), 0)

    def remove(self) -> None:
        """Remove the group after its processes have ended."""
        for folder in self._folders:
            with suppress(OSError):
                folder.rmdir()
        self._folders.clear()

    def _wanted(self) -> dict[str, dict[str, str]]:
        """Return, by controller, the files of both versions and their content."""
        limits, wanted = self._limits, dict[str, dict[str, str]]()
        if limits.memory_bytes is not None:
            most = str(limits.memory_bytes)
            wanted["memory"] = {"memory.max": most, "memory.limit_in_bytes": most, "memory.swap.max": "0"}
        if limits.cpus is not None:
            quota = str(int(limits.cpus * PERIOD_US))
            wanted["cpu"] = {"cpu.max": f"{quota} {PERIOD_US}", "cpu.cfs_quota_us": quota}
        if limits.processes is not None:
            wanted["pids"] = {"pids.max": str(limits.processes)}
        return wanted


def own_kills() -> int:
    """Return how many processes of our own group were killed for lack of memory; 0 if that cannot be seen."""
    folder = _own_memory()
    return (folder is not None and _kills_in(folder)) or 0


def own_memory_bytes() -> int | None:
    """Return the memory limit of our own group; None if there is none or it cannot be seen."""
    if (folder := _own_memory()) is None:
        return None
    for file in ("memory.max", "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            most = int((folder / file).read_text())
            return most if most < _UNBOUNDED else None
    return None


def own_processes() -> int | None:
    """Return the process limit of our own group; None if there is none or it cannot be seen."""
    top, below = _own("pids") or (ROOT, "")
    for folder in (top / below, top):
        with suppress(OSError, ValueError):  # `max` is no number
            return int((folder / "pids.max").read_text())
    return None


def _own_memory() -> Path | None:
    """Return the folder with the memory counters of our own group: below its name or, in a container, at the top."""
    top, below = _own("memory") or (ROOT, "")
    return next((folder for folder in (top / below, top) if _kills_in(folder) is not None), None)


def _kills_in(folder: Path) -> int | None:
    for file in ("memory.events", "memory.oom_control"):
        with suppress(OSError, ValueError):
            counts = dict(line.split() for line in (folder / file).read_text().splitlines())
            return int(counts.get("oom_kill", 0))
    return None


def _own(controller: str) -> tuple[Path, str] | None:
    """Return the root of this controller's tree and the path of our own group in it."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" and not controllers and (ROOT / "cgroup.controllers").exists():
                return ROOT, path.lstrip("/")
            if controller in controllers.split(","):
                return ROOT / controller, path.lstrip("/")
    return None


def _places(controller: str, name: str) -> list[Path]:
    """Return where a group with this controller could be made: in our own group, or beside it."""
    if (own := _own(controller)) is None:
        return []
    top, below = own
    return [top / below / name, (top / below).parent / name] if below else [top / name]


def _make(folder: Path, controller: str, files: dict[str, str]) -> bool:
    """Make a group folder and set its limits; return False, leaving nothing, if that fails."""
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        written = [_write(folder / file, text) for file, text in files.items() if (folder / file).exists()]
        if any(written) and os.access(folder / "cgroup.procs", os.W_OK):
            return True
    except OSError:
        pass
    if is_new:
        with suppress(OSError):
            folder.rmdir()
    return False


def _write(file: Path, text: str) -> bool:
    try:
        file.write_text(text)
    except OSError:
        return False
    return True


def described(limits: Limits, applied: frozenset[str] = EVERY, is_closed: bool = True) -> Iterator[str]:
    """Yield the limits in force as text for the user. The action server applies that of memory where no group does."""
    memory_bytes = limits.memory_bytes if "memory" in applied else limits.memory_of_each_bytes
    if memory_bytes is not None:
        yield f"{memory_bytes // MB} MB of memory in all"
    if limits.cpus is not None and "cpu" in applied:
        yield f"{limits.cpus:g} processors"
    if limits.processes is not None and ("pids" in applied or is_closed):
        yield f"{limits.processes} processes and threads"
    if limits.file_bytes is not None:
        yield f"{limits.file_bytes // MB} MB for one file"
    if limits.free_bytes is not None:
        yield f"{limits.free_bytes // MB} MB of the disk stay free"
