"""The registry of plugins: what a server can do beyond shell, files and plan.

A plugin is one file or folder beside this one and one entry in PLUGINS; those of other packages are found by
`core.plugins.installed`. Two that claim one action are refused when the server starts.

    base        what a plugin is, and what it is given
    browser     one Chromium that the agent drives and the user can watch
    startup     starts them in order, beside the server, and lets their actions wait for that
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from core.plugins import PluginError, PluginRequirement, in_order, installed
from runtime.plugins.base import Place, Plugin

PLUGINS: tuple[PluginRequirement, ...] = (PluginRequirement("browser", "runtime.plugins.browser.plugin:BrowserPlugin"),)
"""Ours, by name."""


def required(names: Iterable[str]) -> list[PluginRequirement]:
    """The plugins of these names and those that they need, in the order in which they start. Raises PluginError."""
    wanted, ours = list(dict.fromkeys(names)), {plugin.name: plugin for plugin in PLUGINS}
    if not wanted:
        return []
    known = ours if ours.keys() >= set(wanted) else {**installed(), **ours}
    return in_order(wanted, known)


def make(requirement: PluginRequirement, place: Place) -> Plugin:
    """The plugin itself. Raises PluginError where its code cannot be had."""
    module, _, name = requirement.make.partition(":")
    try:
        if requirement.events:
            import_module(requirement.events)
        plugin: Plugin = getattr(import_module(module), name)(place)
    except Exception as error:  # the boundary to foreign code
        raise PluginError(f"the plugin {requirement.name!r} cannot be had: {type(error).__name__}: {error}") from error
    return plugin
