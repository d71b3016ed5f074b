"""What a reader of one agent's sessions offers, and what it finds.

`discover` is called for every list, so it must be cheap: names, sizes, and the first and last lines of files. `read` is
called when a session is indexed, opened or exported. Both are called in threads, and both meet files that are cut, that
grow, that vanish, or that somebody made to do harm.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from core.import_export.agents.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Places:
    """Where agents look for their files: the user's home and environment."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    platform: str = sys.platform
    projects: tuple[Path, ...] = ()
    """Folders that are known as projects: some agents store sessions there, and nobody searches the whole home."""
    known: Mapping[Path, AgentSession] = field(default_factory=dict)
    """Sessions that were found before, by their file, so that a file that did not change need not be opened."""

    @classmethod
    def of_user(cls, projects: Iterable[Path] = ()) -> Places:
        """Those of this process."""
        return cls(Path.home(), os.environ, sys.platform, projects=tuple(projects))

    def unchanged(self, path: Path, size: int, changed_ns: int) -> AgentSession | None:
        """The session in a file, if it was found before and the file is as it was then."""
        known = self.known.get(path)
        return known if known is not None and (known.size, known.changed_ns) == (size, changed_ns) else None

    def variable(self, name: str, default: Path) -> Path:
        """The absolute folder in an environment variable, else `default`."""
        value = self.environ.get(name, "")
        return Path(value) if os.path.isabs(value) else default

    @property
    def config(self) -> Path:
        return self.variable("XDG_CONFIG_HOME", self.home / ".config")

    @property
    def data(self) -> Path:
        return self.variable("XDG_DATA_HOME", self.home / ".local/share")

    @property
    def state(self) -> Path:
        return self.variable("XDG_STATE_HOME", self.home / ".local/state")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession:
    """One session of another agent, as a list shows it. All texts are untrusted."""

    agent: str
    """The name of its source."""
    id: str
    """As its agent names it; unique among the sessions of that agent."""
    root: Path
    """The folder of its agent; no link is followed below it."""
    path: Path
    """The file or folder that has it, below `root`."""
    row: str = ""
    """Its key in a database that has many sessions."""
    title: str = ""
    folder: str = ""
    """The folder in which the agent worked; empty if unknown."""
    model: str = ""
    started_at: datetime | None = None
    updated_at: datetime | None = None
    size: int = 0
    """Bytes: with `changed_ns`, they tell whether it was changed."""
    changed_ns: int = 0
    parent_id: str = ""
    """The session that started this sub-agent, or of which it is a fork."""
    tokens: int = 0
    cost: float | None = None
    """US dollars; None if the file does not say."""
    commit: str = ""
    """The git commit at which it began; empty if unknown."""
    deleted_at: datetime | None = None
    """When its agent is going to delete it; None if it does not."""
    beginning: str = ""
    """The same in all sessions that begin with the same records: the one that was begun first is their parent."""
    begun_at: datetime | None = None
    """When its file was begun, if that is later than `started_at`."""
    first_bytes: int = 0
    """Have `read` stop after the lines within so many bytes, and leave out branches; 0 reads all.

    Works for files with one record on each line; other readers ignore it.
    """

    def growing_files(self) -> tuple[Path, list[str]]:
        """The folder in which its agent writes, and the names of the files there; no name if all of them count.

        A database in use is written to its log first.
        """
        if self.path.is_dir():
            return self.path, []
        return self.path.parent, [self.path.name, f"{self.path.name}-wal"] if self.row else [self.path.name]


@dataclass(frozen=True, slots=True)
class Source:
    """One agent whose sessions can be read."""

    name: str
    """Used in commands: `claude-code`."""
    title: str
    """Shown to people: `Claude Code`."""
    discover: Callable[[Places], Iterable[AgentSession]]
    """Every session that is there, sub-agents too, in no order. Skips what cannot be read; raises nothing."""
    read: Callable[[AgentSession], Transcript]
    """The whole session. Raises OSError if its file is gone, and Fault if it cannot be read at all."""
