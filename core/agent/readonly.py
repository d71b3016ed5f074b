"""ReadOnlyAgent: looks at the workspace and changes nothing. Named as in OpenHands V0."""

from __future__ import annotations

from core.agent.tool_agent import ToolAgent, read_prompt
from core.agent.tools import READING_TOOLS


class ReadOnlyAgent(ToolAgent):
    """The agent for questions: grep, glob, view, think and finish are all that it has."""

    name = "ReadOnlyAgent"
    description = "Searches and reads, answers questions, changes nothing."
    prompt = read_prompt("readonly")
    tools = READING_TOOLS
    takes_more = False
