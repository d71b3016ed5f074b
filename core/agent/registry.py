"""The agents by name: Handloom's own, those of installed packages, and those in Markdown files.

Handloom's own are subclasses of ToolAgent with a name, a prompt and tools. All but the Planner are named as in
OpenHands V0. Nothing about a plan is kept in the Planner: the newest PlanAction that is not undone says whether it
plans or works, also after a restart, a replay or an undo.

To add one of Handloom's own, add its class to `_OURS`. Another package adds one by the entry point group
`handloom.agents`, whose entries name a subclass of `core.agent.tool_agent.ToolAgent`. Without Python, write a file
(`core.agent.agent_files`). This module reads files and metadata, so call it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.acp import ACP_AGENT, unconfigured_agent
from core.agent.agent_files import AgentFile, AllowedAgents, FileAgent, read_folder, read_project
from core.agent.tool_agent import MoreTools, ToolAgent, no_more_tools, read_prompt
from core.agent.tools import BROWSING_TOOLS, CODEACT_TOOLS, PLANNING_TOOLS, READING_TOOLS
from core.errors import ConfigurationError, ConsentError, ModelError, ModelErrorKind
from core.events import PLANNER, Envelope, Event, LLMMetrics, PlanAction, SystemMessageAction
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, Agent, FrameSink
from core.undo.reverted import without_undone


class CodeActAgent(ToolAgent):
    """Writes and runs code. Has the tools that the sandbox's plugins can execute."""

    name = "CodeActAgent"
    description = "Works with the shell, files, Python and the browser."
    prompt = read_prompt("codeact")
    tools = CODEACT_TOOLS


class BrowsingAgent(ToolAgent):
    """Works in the browser only. Without the browser plugin it can only answer in text."""

    name = "BrowsingAgent"
    description = "Reads web pages and acts on them; has no shell and no files."
    prompt = read_prompt("browsing")
    tools = BROWSING_TOOLS
    takes_more = False


class ReadOnlyAgent(ToolAgent):
    """Answers questions about the workspace and changes nothing."""

    name = "ReadOnlyAgent"
    description = "Searches and reads, answers questions, changes nothing."
    prompt = read_prompt("readonly")
    tools = READING_TOOLS
    takes_more = False


class Planner(ToolAgent):
    """Makes a plan with tools that only read, and executes it after the user has approved it."""

    name = PLANNER
    description = "Makes a plan first, changing nothing; carries it out once you have approved it."
    prompt = read_prompt("planner")
    tools = PLANNING_TOOLS
    takes_more = False

    def __init__(
        self, llm: LLM, plugins: Sequence[PluginRequirement] = (), more_tools: MoreTools = no_more_tools
    ) -> None:
        super().__init__(llm, plugins)
        self._worker = _Worker(llm, plugins, more_tools)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Plan until the user approves the plan, then work on it."""
        if is_planning(history):
            return await super().step(history, metrics, on_frame)
        return await self._worker.step(history, metrics, on_frame)


class _Worker(CodeActAgent):
    """CodeActAgent with its own instructions in place of the Planner's, with which the conversation began."""

    def _instructions(self, logged: dict[str, str], own: dict[str, str]) -> dict[str, str]:
        return own


class MissingAgent:
    """The agent of a conversation whose own agent is missing or not allowed; every step raises ModelError.

    The conversation can be read, and each step says what to do. No other agent replaces the missing one, because it may
    have more tools than the one that the user chose.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def system_message(self) -> SystemMessageAction:
        """Return an empty message."""
        return SystemMessageAction(content="", agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Raise ModelError that says what is missing."""
        raise ModelError(ModelErrorKind.NOT_FOUND, f"{self._reason} Then open this conversation again.")


def is_planning(history: Sequence[Envelope]) -> bool:
    """Return whether the plan in a Planner's history is not approved yet."""
    decisions = [e.event.approved for e in without_undone(history) if isinstance(e.event, PlanAction)]
    return not (decisions and decisions[-1])


ENTRY_POINTS = "handloom.agents"
FOLDER = "agents"
"""In the user's home and in the project's `.handloom`: one file an agent."""

MakeAgent = Callable[[LLM, Sequence[PluginRequirement], MoreTools], Agent]
"""Creates the agent for a model, the plugins of the sandbox, and tools from elsewhere."""


@dataclass(frozen=True, slots=True)
class AgentKind:
    """An agent that can be chosen."""

    name: str
    description: str
    make: MakeAgent
    origin: str = "Handloom"
    """Where it comes from, as shown to the user."""
    model: str = ""
    """Its preferred model; "" uses the conversation's."""
    file: AgentFile | None = None
    """The file that defines it."""
    allowed: bool = True
    """Whether the user has allowed its current text; only a project's agent needs that."""


_OURS: tuple[type[ToolAgent], ...] = (CodeActAgent, ReadOnlyAgent, BrowsingAgent, Planner)
AGENTS = {agent.name: AgentKind(agent.name, agent.description, agent) for agent in _OURS} | {
    ACP_AGENT: AgentKind(ACP_AGENT, "An external agent, with the command agent.acp_command.", unconfigured_agent)
}


@dataclass(frozen=True, slots=True)
class Found:
    """The agents by name, and one line for each problem with another one."""

    kinds: dict[str, AgentKind]
    problems: list[str]


class Agents:
    """The agents of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._allowed = AllowedAgents(home)

    def all(self, workspace: str = "") -> Found:
        """Return all agents for this folder. Broken ones are listed as problems."""
        found = Found(dict(AGENTS), [])
        _add_installed(found)
        _add_files(found, *read_folder(self._home / FOLDER), "yours", lambda file: True)
        if workspace:
            _add_files(
                found, *read_project(Path(workspace).expanduser().absolute()), "the project's", self._allowed.has
            )
        return found

    def find(self, name: str, workspace: str = "") -> AgentKind:
        """Return the agent of this name.

        Raises ConfigurationError if it does not exist, ConsentError for a project's agent that is not allowed.
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
                f"The agent {name!r} is the project's ({kind.file.path if kind.file else ''}), and you have not "
                f"allowed its current text. Read it, then allow it: handloom agents --allow {name}"
            )
        return kind

    def allow(self, kind: AgentKind) -> None:
        """Store that the user allows a project's agent. Raises ConfigurationError if it cannot be stored."""
        if kind.file is not None:
            self._allowed.add(kind.file)


def _add_installed(found: Found) -> None:
    """Add the agents of other packages. Reading the metadata of all packages takes about 10 ms."""
    from importlib import metadata  # slow to import

    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            agent = entry.load()
        except Exception as error:  # noqa: BLE001  # the boundary to foreign code
            found.problems.append(f"the agent {entry.name!r} cannot be loaded: {type(error).__name__}: {error}")
            continue
        if not (isinstance(agent, type) and issubclass(agent, ToolAgent)):
            found.problems.append(f"the agent {entry.name!r} is not a ToolAgent: {entry.value}")
        elif agent.name in found.kinds:
            found.problems.append(f"two agents are called {agent.name!r}; the one of {entry.value} is ignored")
        else:
            package = entry.dist.name if entry.dist else entry.value
            found.kinds[agent.name] = AgentKind(agent.name, agent.description, agent, f"of the package {package}")


def _add_files(
    found: Found, files: Sequence[AgentFile], problems: Sequence[str], origin: str, allowed: Callable[[AgentFile], bool]
) -> None:
    found.problems.extend(problems)
    for file in files:
        if file.name in found.kinds:
            found.problems.append(f"{file.path}: there is another agent {file.name!r}. Give this one a different name.")
            continue
        make = partial(FileAgent, file)
        found.kinds[file.name] = AgentKind(file.name, file.description, make, origin, file.model, file, allowed(file))
