"""AgentSkillsPlugin: has every kernel import the skills before anybody uses it, a replaced one too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from core.plugin_requirements import PluginError
from runtime.plugins.base import PluginContext
from runtime.plugins.jupyter.plugin import JupyterPlugin
from runtime.server.action_executor import Table

FOLDER = Path(__file__).parent
"""Where the kernel finds the package, after everything of the user's."""


class AgentSkillsPlugin:
    """Brings no action: its functions are called in cells."""

    routes: Sequence[web.RouteDef] = ()
    table: Table = {}

    def __init__(self, context: PluginContext) -> None:
        """Raises PluginError where the kernel is not JupyterPlugin's."""
        jupyter = context.plugins.get("jupyter")
        if not isinstance(jupyter, JupyterPlugin):
            raise PluginError("the plugin 'agent_skills' needs the plugin 'jupyter'")
        jupyter.prepare(f"__import__('sys').path.append({str(FOLDER)!r})\nfrom agentskills import *")

    async def start(self) -> None:
        """Nothing is left to do: the kernel that `jupyter` has started was prepared."""

    async def aclose(self) -> None:
        """Nothing is left: the functions end with their kernel."""


def documentation() -> str:
    """The skills, for the agent's prompt: names, parameters and what they do, made from the functions themselves."""
    from runtime.plugins.agent_skills import agentskills

    return agentskills.documentation()
