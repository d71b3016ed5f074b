"""AgentSkillsPlugin: makes every kernel import the skills before it is used, including kernels that replace others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from core.plugin_requirements import PluginError
from runtime.plugins.base import PluginContext
from runtime.plugins.jupyter.plugin import JupyterPlugin
from runtime.server.action_executor import Table

FOLDER = Path(__file__).parent
"""The folder of the package `agentskills`, which comes last in the kernel's `sys.path`."""


class AgentSkillsPlugin:
    """Has no actions: its functions are called in cells. Raises PluginError without JupyterPlugin."""

    routes: Sequence[web.RouteDef] = ()
    table: Table = {}

    def __init__(self, context: PluginContext) -> None:
        jupyter = context.plugins.get("jupyter")
        if not isinstance(jupyter, JupyterPlugin):
            raise PluginError("the plugin 'agent_skills' needs the plugin 'jupyter'")
        jupyter.prepare(f"__import__('sys').path.append({str(FOLDER)!r})\nfrom agentskills import *")

    async def start(self) -> None:
        """Do nothing: `jupyter` has started the kernel and prepared it."""

    async def aclose(self) -> None:
        """Do nothing: the functions end with their kernel."""
