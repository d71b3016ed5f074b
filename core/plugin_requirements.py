"""What a plugin is known by, on both sides of the sandbox's walls: its name, what it needs, and where its parts are.

A PluginRequirement only names modules; nothing of a plugin is imported before it is used. Those of others are found by
the entry point group `handloom.plugins`, whose entries name a PluginRequirement. Follows the PluginRequirement of
OpenHands V0 (`openhands/runtime/plugins/requirement.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from typing import Any

ENTRY_POINTS = "handloom.plugins"


@dataclass(frozen=True, slots=True)
class PluginRequirement:
    """A plugin that a sandbox shall have."""

    name: str
    """As `--plugins` and the settings name it."""
    make: str
    """`module:callable`, used in the sandbox: takes a `runtime.plugins.base.Place` and gives a Plugin."""
    needs: tuple[str, ...] = ()
    """The plugins that are ready before it starts."""
    events: str = ""
    """The module that defines its actions and observations; importing it makes them known. Empty: none of its own."""
    tools: str = ""
    """`module:NAME` of a sequence of `core.agent.tools.Tool`, which the agent gets. Empty: none."""
    cards: str = ""
    """`module:NAME` of a mapping from its event classes to how they are shown. Empty: as JSON."""


OURS = (
    PluginRequirement("agent_skills", "runtime.plugins.agent_skills.plugin:AgentSkillsPlugin", needs=("jupyter",)),
    PluginRequirement("browser", "runtime.plugins.browser.plugin:BrowserPlugin"),
    PluginRequirement("jupyter", "runtime.plugins.jupyter.plugin:JupyterPlugin"),
    PluginRequirement("vscode", "runtime.plugins.vscode:VSCodePlugin"),
)
"""The plugins that Handloom brings."""


class PluginError(ValueError):
    """A plugin that is not known, or that cannot be had; the text says which, and what there is."""


def installed() -> dict[str, PluginRequirement]:
    """The plugins of other packages, by name. Reads the metadata of all packages: some ten milliseconds.

    Raises PluginError for an entry that is no PluginRequirement or cannot be imported.
    """
    from importlib import metadata  # takes longer than all else here, and is rarely asked

    found: dict[str, PluginRequirement] = {}
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            requirement = entry.load()
        except Exception as error:  # the boundary to foreign code
            raise PluginError(f"the plugin {entry.name!r} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(requirement, PluginRequirement):
            raise PluginError(f"the plugin {entry.name!r} is no PluginRequirement: {entry.value}")
        if requirement.name in found:
            raise PluginError(f"two packages bring a plugin called {requirement.name!r}")
        found[requirement.name] = requirement
    return found


def required(names: Iterable[str]) -> list[PluginRequirement]:
    """The plugins of these names and those that they need, in the order in which they start. Raises PluginError.

    The metadata of packages is read only for names that are not ours.
    """
    wanted, ours = list(dict.fromkeys(names)), {plugin.name: plugin for plugin in OURS}
    known = ours if ours.keys() >= set(wanted) else {**installed(), **ours}
    return in_order(wanted, known)


def load_events(plugin: PluginRequirement) -> None:
    """Make its actions and observations known. Raises PluginError."""
    try:
        if plugin.events:
            import_module(plugin.events)
    except Exception as error:  # the boundary to foreign code
        raise PluginError(f"the plugin {plugin.name!r} cannot be had: {type(error).__name__}: {error}") from error


def load(plugin: PluginRequirement, part: str) -> Any:
    """What stands at `module:NAME`, one of its parts; its events are known then. Raises PluginError."""
    load_events(plugin)
    module, _, name = part.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # the boundary to foreign code
        raise PluginError(f"the plugin {plugin.name!r} cannot be had: {type(error).__name__}: {error}") from error


def in_order(names: Iterable[str], known: Mapping[str, PluginRequirement]) -> list[PluginRequirement]:
    """Those plugins and all that they need, each after what it needs, otherwise by name.

    Raises PluginError for one that is not known, and for some that need each other.
    """
    graph: dict[str, tuple[str, ...]] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise PluginError(f"no plugin is called {name!r}; known: {there}")
        if name not in graph:
            graph[name] = known[name].needs
            wanted += known[name].needs
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise PluginError(f"plugins need each other: {' -> '.join(error.args[1])}") from error
    order: list[PluginRequirement] = []
    while sorter.is_active():
        for name in sorted(sorter.get_ready()):
            order.append(known[name])
            sorter.done(name)
    return order
