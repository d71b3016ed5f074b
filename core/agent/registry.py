"""The agents by name: ours, those of other packages, and those that are written down in Markdown files.

To add one of ours, add its class to `_OURS`. Another package adds one by the entry point group `handloom.agents`, whose
entries name a subclass of `core.agent.tool_agent.ToolAgent`. Whoever has no Python writes a file
(`core.agent.agent_files`). Everything here reads files and metadata, so it is called beside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.acp.acp_selection import OTHER, unlinked
from core.agent.agent_files import AgentFile, Allowed, FileAgent, read_folder, read_project
from core.agent.agents import BrowsingAgent, CodeActAgent, Planner, ReadOnlyAgent
from core.agent.tool_agent import MoreTools, ToolAgent
from core.errors import ConfigurationError, ConsentError
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, Agent

ENTRY_POINTS = "handloom.agents"
FOLDER = "agents"
"""In the user's home and in the project's `.handloom`: one file an agent."""

MakeAgent = Callable[[LLM, Sequence[PluginRequirement], MoreTools], Agent]
"""Makes the agent for a model, the plugins of the sandbox, and tools of others."""


@dataclass(frozen=True, slots=True)
class AgentKind:
    """An agent that can be chosen."""

    name: str
    description: str
    make: MakeAgent
    origin: str = "Handloom"
    """Where it comes from, for people."""
    model: str = ""
    """The model that it wants; empty leaves it to the conversation."""
    file: AgentFile | None = None
    """Where it is written down."""
    allowed: bool = True
    """Whether the user has read it as it stands; only a project's has to be."""


_OURS: tuple[type[ToolAgent], ...] = (CodeActAgent, ReadOnlyAgent, BrowsingAgent, Planner)
AGENTS = {agent.name: AgentKind(agent.name, agent.description, agent) for agent in _OURS} | {
    OTHER: AgentKind(OTHER, "Another agent, over the Agent Client Protocol; see agent.acp_command.", unlinked)
}


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to choose from, by name, and what is wrong with the rest, a line each."""

    kinds: dict[str, AgentKind]
    problems: list[str]


class Agents:
    """The agents of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._allowed = Allowed(home)

    def all(self, workspace: str = "") -> Found:
        """Every agent for work in this folder. What is broken is among the problems, and the rest is there."""
        found = Found(dict(AGENTS), [])
        _add_installed(found)
        _add_files(found, *read_folder(self._home / FOLDER), "yours", lambda file: True)
        if workspace:
            _add_files(
                found, *read_project(Path(workspace).expanduser().absolute()), "the project's", self._allowed.has
            )
        return found

    def find(self, name: str, workspace: str = "") -> AgentKind:
        """The agent of this name.

        Raises ConfigurationError where there is none, ConsentError for a project's that the user has not read.
        """
        if name in AGENTS:
            return AGENTS[name]
        found = self.all(workspace)
        kind = found.kinds.get(name)
        if kind is None:
            broken = f" These are broken: {'; '.join(found.problems[:3])}." if found.problems else ""
            names = ", ".join(sorted(found.kinds))
            raise ConfigurationError(f"There is no agent {name[:80]!r}. Choose one of: {names}.{broken}")
        if not kind.allowed:
            raise ConsentError(
                f"The agent {name!r} is the project's ({kind.file.path if kind.file else ''}), and you have not read "
                f"it as it stands. Read it, and allow it: handloom agents --allow {name}"
            )
        return kind

    def allow(self, kind: AgentKind) -> None:
        """The user has read a project's agent, and lets it work. Raises ConfigurationError where that is not kept."""
        if kind.file is not None:
            self._allowed.add(kind.file)


def _add_installed(found: Found) -> None:
    """Add the agents of other packages. Reads the metadata of all packages: some ten milliseconds."""
    from importlib import metadata  # takes longer than all else here

    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            agent = entry.load()
        except Exception as error:  # noqa: BLE001  # the boundary to foreign code
            found.problems.append(f"the agent {entry.name!r} cannot be loaded: {type(error).__name__}: {error}")
            continue
        if not (isinstance(agent, type) and issubclass(agent, ToolAgent)):
            found.problems.append(f"the agent {entry.name!r} is no ToolAgent: {entry.value}")
        elif agent.name in found.kinds:
            found.problems.append(f"two agents are called {agent.name!r}; that of {entry.value} is left out")
        else:
            package = entry.dist.name if entry.dist else entry.value
            found.kinds[agent.name] = AgentKind(agent.name, agent.description, agent, f"of the package {package}")


def _add_files(
    found: Found, files: Sequence[AgentFile], problems: Sequence[str], origin: str, allowed: Callable[[AgentFile], bool]
) -> None:
    found.problems.extend(problems)
    for file in files:
        if file.name in found.kinds:
            found.problems.append(f"{file.path}: there is another agent {file.name!r}. Give this one another name.")
            continue
        make = partial(FileAgent, file)
        found.kinds[file.name] = AgentKind(file.name, file.description, make, origin, file.model, file, allowed(file))
