"""BrowsingAgent: works in the browser and nowhere else. Named as in OpenHands V0."""

from __future__ import annotations

from core.agent.tool_agent import ToolAgent, read_prompt
from core.agent.tools import BROWSING_TOOLS


class BrowsingAgent(ToolAgent):
    """The agent for pages: it reads them and acts on them. Without the browser's plugin it can only talk."""

    name = "BrowsingAgent"
    description = "Reads web pages and acts on them; has no shell and no files."
    prompt = read_prompt("browsing")
    tools = BROWSING_TOOLS
    takes_more = False
