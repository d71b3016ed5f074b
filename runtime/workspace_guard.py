"""Keeps a sandbox from leaving something in the workspace that the user's own programs would run, or reports it.

The same for every sandbox that mounts the workspace. A guard looks before each start, gives the mounts that make paths
read-only, holds their mount points until the end, and moves aside what appears under a protected name that did not
exist. All calls block for milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.denials import Denials
from runtime import aside
from runtime.denied import Sight, deny
from runtime.git_targets import MAX_TARGETS
from runtime.protected import Held, Mounts, mounts
from runtime.survey import Baseline, nested_places

LEFT_OUT = "{n} files that settings and hooks of git point at are not read-only in the sandbox: only {most} are."


class WorkspaceGuard:
    """Of one workspace. `names` are the protected paths, relative to it."""

    def __init__(self, workspace: Path, names: tuple[str, ...]) -> None:
        self._workspace = workspace
        self._names = names
        self.denied: Callable[[], Denials] = Denials
        """What the rules of the user deny now."""
        self.denials = Denials()
        """The same as of the last look."""
        self.kept: Path | None = None
        """A file out of the sandbox's sight, in which what there was at first outlasts the program."""
        self._baseline: Baseline | None = None
        self._held: Held | None = None
        self._watched: tuple[str, ...] = ()
        self._left_out = 0
        self._moved: list[str] = []
        """What was moved aside since the guard was made, a line each."""

    def look(self) -> None:
        """Look what there is before a start; what there was before the first one counts. Raises OSError."""
        before = self._baseline.before if self._baseline is not None else None
        self._baseline = Baseline(self._workspace, self._names, self.kept, before)
        self.denials = self.denied()

    def mounts(self, sight: Sight) -> Mounts:
        """What is to be mounted, also of what the last look found deeper, and what enforces denials.

        Raises ProtectionError, OSError.
        """
        nested = nested_places(self._baseline.first.places) if self._baseline else ()
        found = mounts(self._workspace, self._names, nested)
        deny(found, self.denials, self._workspace, sight)
        return found

    def hold(self, found: Mounts, owner: tuple[int, int] | None) -> None:
        """Have the mount points be there until `release`; `owner` gets those that are made. Raises OSError."""
        self.release()
        aside.remove_empty(self._workspace, found.watched)
        self._watched = tuple(found.watched)
        self._left_out = found.left_out
        self._held = Held(found, owner)

    def identities(self) -> tuple[tuple[int, int], ...]:
        """What the mount points are, device and number of each, since `hold`."""
        return self._held.identities() if self._held is not None else ()

    @property
    def placeholders(self) -> list[Path]:
        """What was made in git's own folder to be mounted on, since `hold`."""
        return self._held.placeholders if self._held is not None else []

    def move_aside(self) -> list[str]:
        """Rename what appeared under a protected name since `hold`; a line for each."""
        moved = aside.move_aside(self._workspace, self._watched)
        self._moved = list(dict.fromkeys([*self._moved, *moved]))
        return moved

    def put_back(self, name: str) -> str:
        """Undo that for one file, which is read-only from the next start on: end the sandbox. Raises UsageError."""
        restored = aside.put_back(self._workspace, dict.fromkeys([*self._names, *self._watched]), name)
        self._watched = tuple(watched for watched in self._watched if watched != restored)
        return restored

    def release(self, *, leave: bool = False) -> None:
        """Let go of the mount points; `leave` has them stay for a sandbox that outlasts us. May be called twice.

        The sandbox has ended, unless it is to outlast us.
        """
        self.move_aside()
        if not leave:
            self._watched = ()
        held, self._held = self._held, None
        if held is not None:
            held.close(leave=leave)

    def fallen(self) -> str:
        """Which protection fell since `hold`, for the user; empty where all holds."""
        replaced = self._held.replaced() if self._held is not None else None
        return "" if replaced is None else f"{replaced} was replaced on this machine, so it is not protected any more"

    def left_behind(self) -> list[str]:
        """What is there now, and was not when the conversation began, that the host would run; what was moved first."""
        if self._baseline is None and self.kept is not None and self.kept.exists():
            self.look()
        self.move_aside()
        found = self._baseline.new() if self._baseline is not None else []
        if self._left_out:
            found.append(LEFT_OUT.format(n=self._left_out, most=MAX_TARGETS))
        return [*self._moved, *found]
