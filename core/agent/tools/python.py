"""execute_ipython_cell: Python in a kernel, which stays from call to call."""

from __future__ import annotations

from core.agent.tools.tool import RISK_PARAMETER, Tool, parameters_of, risk_of
from core.events import IPythonRunCellAction

SKILLS = (
    " Functions for reading are there: open_file, search_dir, search_file, find_file, parse_pdf, parse_docx, "
    "parse_pptx, explore_tree_structure, get_entity_contents, search_code_snippets; `help(search_dir)` tells of one."
)

EXECUTE_IPYTHON_CELL = Tool(
    name="execute_ipython_cell",
    description=(
        "Run a cell of Python in an IPython kernel. Names that a cell defines and what it imports last from call to "
        "call; the kernel works in the folder in which the shell is. What a cell prints, its last value and its "
        "figures come back; you see the figures where you can see pictures. `%pip install` adds packages. Use it to "
        "compute, to look at data and to plot; use the shell for programs."
    ),
    parameters={
        **parameters_of(IPythonRunCellAction, code="The cell; magic commands are understood."),
        "security_risk": RISK_PARAMETER,
    },
    required=("code", "security_risk"),
    actions=(IPythonRunCellAction,),
    to_action=lambda arguments: IPythonRunCellAction(code=arguments["code"], security_risk=risk_of(arguments)),
    plugin="jupyter",
    more={"agent_skills": SKILLS},
)
