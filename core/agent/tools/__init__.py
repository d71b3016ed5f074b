"""The tools that a model can call. Each defines its parameters and the action that a call becomes."""

from core.agent.tools.control import DELEGATE, FINISH, REQUEST_CONDENSATION, TASK_TRACKER, THINK, delegate_to
from core.agent.tools.files import EDIT_FILE, GLOB, GREP, STR_REPLACE_EDITOR, VIEW
from core.agent.tools.sandbox import BROWSER, EXECUTE_BASH, EXECUTE_IPYTHON_CELL
from core.agent.tools.tool import InvalidCall, Tool

CODEACT_TOOLS: tuple[Tool, ...] = (
    EXECUTE_BASH,
    THINK,
    FINISH,
    EXECUTE_IPYTHON_CELL,
    BROWSER,
    STR_REPLACE_EDITOR,
    TASK_TRACKER,
    DELEGATE,
)
READING_TOOLS: tuple[Tool, ...] = (GREP, GLOB, VIEW, THINK, FINISH)
BROWSING_TOOLS: tuple[Tool, ...] = (BROWSER, THINK, FINISH)
PLANNING_TOOLS: tuple[Tool, ...] = (*READING_TOOLS, TASK_TRACKER)
_ON_REQUEST = (REQUEST_CONDENSATION, EDIT_FILE)
OUR_TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*CODEACT_TOOLS, *READING_TOOLS, *_ON_REQUEST)}
"""All of them by name, including those that no agent has by default."""

__all__ = [
    "BROWSING_TOOLS",
    "CODEACT_TOOLS",
    "FINISH",
    "OUR_TOOLS",
    "PLANNING_TOOLS",
    "READING_TOOLS",
    "InvalidCall",
    "Tool",
    "delegate_to",
]
