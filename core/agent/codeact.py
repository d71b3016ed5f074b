"""CodeActAgent: works by shell commands and file edits. Named as in OpenHands V0."""

from __future__ import annotations

from core.agent.tool_agent import MoreTools, ToolAgent, no_more_tools, read_prompt
from core.agent.tools import CODEACT_TOOLS

__all__ = ["CodeActAgent", "MoreTools", "no_more_tools"]


class CodeActAgent(ToolAgent):
    """The agent for work with code. Its tools are those that the sandbox's plugins can carry out."""

    name = "CodeActAgent"
    description = "Works with the shell, files, Python and the browser."
    prompt = read_prompt("codeact")
    tools = CODEACT_TOOLS
