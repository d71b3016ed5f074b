"""The tools that a model can call. One entry each says what a call looks like and which action it becomes."""

from core.agent.tools.bash import EXECUTE_BASH
from core.agent.tools.browser import BROWSER
from core.agent.tools.delegate import DELEGATE
from core.agent.tools.editor import STR_REPLACE_EDITOR
from core.agent.tools.python import EXECUTE_IPYTHON_CELL
from core.agent.tools.talk import FINISH, THINK
from core.agent.tools.tool import InvalidCall, Tool

CODEACT_TOOLS: tuple[Tool, ...] = (
    EXECUTE_BASH,
    THINK,
    FINISH,
    EXECUTE_IPYTHON_CELL,
    BROWSER,
    STR_REPLACE_EDITOR,
    DELEGATE,
)

__all__ = ["CODEACT_TOOLS", "InvalidCall", "Tool"]
