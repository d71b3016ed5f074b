"""PluginRequirement: a plugin's name, its dependencies, and the modules of its parts inside and outside the sandbox.

It only names modules, so that nothing of a plugin is imported before it is used. Plugins of other packages are found by
the entry point group `handloom.plugins`. Follows the PluginRequirement of OpenHands V0
(`openhands/runtime/plugins/requirement.py`).
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
    """A plugin for the sandbox."""

    name: str
    """The name in `--plugins` and in the settings."""
    make: str
    """`module:callable`, used in the sandbox: takes a `runtime.plugins.base.PluginContext` and returns a Plugin."""
    needs: tuple[str, ...] = ()
    """The plugins that must be ready before it starts."""
    events: str = ""
    """The module that defines and registers its actions and observations; empty if it has none."""
    tools: str = ""
    """`module:NAME` of a sequence of `core.agent.tools.Tool` for the agent; empty if it has none."""
    cards: str = ""
    """`module:NAME` of a mapping from its event classes to their display; empty to show them as JSON."""


OURS = (
    PluginRequirement("agent_skills", "runtime.plugins.agent_skills.plugin:AgentSkillsPlugin", needs=("jupyter",)),
    PluginRequirement("browser", "runtime.plugins.browser.plugin:BrowserPlugin"),
    PluginRequirement("jupyter", "runtime.plugins.jupyter.plugin:JupyterPlugin"),
    PluginRequirement("vscode", "runtime.plugins.vscode:VSCodePlugin"),
)
"""The built-in plugins."""


class PluginError(ValueError):
    """A plugin is unknown or cannot be loaded. The text says which, and which plugins exist."""


def installed() -> dict[str, PluginRequirement]:
    """The plugins of other packages, by name. Reads the metadata of all packages: some ten milliseconds.

    Raises PluginError for an entry that is not a PluginRequirement or cannot be imported.
    """
    from importlib import metadata  # slow to import, and rarely needed

    found: dict[str, PluginRequirement] = {}
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            requirement = entry.load()
        except Exception as error:  # the boundary to foreign code
            raise PluginError(f"the plugin {entry.name!r} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(requirement, PluginRequirement):
            raise PluginError(f"the plugin {entry.name!r} is not a PluginRequirement: {entry.value}")
        if requirement.name in found:
            raise PluginError(f"two packages have a plugin called {requirement.name!r}")
        found[requirement.name] = requirement
    return found


def required(names: Iterable[str]) -> list[PluginRequirement]:
    """The plugins of these names and their dependencies, in the order in which they start. Raises PluginError.

    Reads the metadata of packages only for names that are not built in.
    """
    wanted, ours = list(dict.fromkeys(names)), {plugin.name: plugin for plugin in OURS}
    known = ours if ours.keys() >= set(wanted) else {**installed(), **ours}
    return in_order(wanted, known)


def load_events(plugin: PluginRequirement) -> None:
    """Register the plugin's actions and observations. Raises PluginError."""
    try:
        if plugin.events:
            import_module(plugin.events)
    except Exception as error:  # the boundary to foreign code
        raise PluginError(f"the plugin {plugin.name!r} cannot be loaded: {type(error).__name__}: {error}") from error


def load(plugin: PluginRequirement, part: str) -> Any:
    """Load one of the plugin's parts, given as `module:NAME`, after its events. Raises PluginError."""
    load_events(plugin)
    module, _, name = part.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # the boundary to foreign code
        raise PluginError(f"the plugin {plugin.name!r} cannot be loaded: {type(error).__name__}: {error}") from error


def in_order(names: Iterable[str], known: Mapping[str, PluginRequirement]) -> list[PluginRequirement]:
    """The plugins and their dependencies, each after its dependencies, otherwise sorted by name.

    Raises PluginError for an unknown plugin and for circular dependencies.
    """
    graph: dict[str, tuple[str, ...]] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise PluginError(f"no plugin is called {name!r}; known: {names}")
        if name not in graph:
            graph[name] = known[name].needs
            wanted += known[name].needs
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise PluginError(f"plugins depend on each other: {' -> '.join(error.args[1])}") from error
    order: list[PluginRequirement] = []
    while sorter.is_active():
        for name in sorted(sorter.get_ready()):
            order.append(known[name])
            sorter.done(name)
    return order
