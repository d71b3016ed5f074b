"""Tools that run something in the sandbox: execute_bash commands, execute_ipython_cell Python, browser the browser.

The shell, the kernel and the browser keep their state between calls. The browser is controlled with the functions of
BrowserGym, one call per line.
"""

from __future__ import annotations

from core.agent.tools.tool import RISK_PARAMETER, Arguments, InvalidCall, Tool, parameters_of, risk_of
from core.events import BrowseInteractiveAction, CmdRunAction, IPythonRunCellAction

MAX_TIMEOUT_S = 24 * 3600.0
"""One day; a longer timeout is taken for a mistake."""


def _to_command(arguments: Arguments) -> CmdRunAction:
    timeout = arguments.get("timeout")
    if timeout is not None and not 0 < timeout <= MAX_TIMEOUT_S:
        raise InvalidCall(f"Invalid float passed to 'timeout' argument: {timeout}")
    return CmdRunAction(
        command=arguments["command"],
        is_input=arguments.get("is_input") == "true",
        security_risk=risk_of(arguments),
        timeout=None if timeout is None else float(timeout),
        blocking=timeout is not None,
    )


EXECUTE_BASH = Tool(
    name="execute_bash",
    description=(
        "Run a bash command in the terminal of the workspace. The shell stays open: its working directory, "
        "variables and background jobs last from call to call. One command at a time; join several with && "
        "or ;.\n"
        "A command that prints nothing for a while, or runs past its timeout, comes back with exit code -1 "
        "and is still running. Then call again with is_input 'true' and an empty command to see more output, "
        "with text to type into it, or with C-c, C-d or C-z to press that key. Start servers and other "
        "endless programs in the background with their output in a file: `python3 app.py > server.log 2>&1 "
        "&`.\n"
        "Very long output is cut in the middle: filter it, or write it into a file and look at parts."
    ),
    parameters={
        **parameters_of(
            CmdRunAction, command="The command; or, with is_input 'true', what is typed into the running one."
        ),
        "security_risk": RISK_PARAMETER,
        "is_input": {
            "type": "string",
            "enum": ["true", "false"],
            "description": "'true' types into the running program; 'false', the default, runs the command.",
        },
        **parameters_of(
            CmdRunAction, timeout="Seconds until the call comes back although the command is still running."
        ),
    },
    required=("command", "security_risk"),
    actions=(CmdRunAction,),
    to_action=_to_command,
)


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


_FUNCTIONS = """goto(url: str)
go_back()
go_forward()
noop(wait_ms: float = 1000): wait
scroll(delta_x: float, delta_y: float): in pixels, positive is right and down
fill(bid: str, value: str): a field's whole text
select_option(bid: str, options: str | list[str]): by value or label
click(bid: str, button: "left" | "middle" | "right" = "left", modifiers: list[str] = [])
dblclick(bid: str, button: "left" | "middle" | "right" = "left", modifiers: list[str] = [])
hover(bid: str)
press(bid: str, key_comb: str): such as "Enter", "ControlOrMeta+a"
focus(bid: str)
clear(bid: str)
drag_and_drop(from_bid: str, to_bid: str)
upload_file(bid: str, file: str | list[str])"""


def _to_action(arguments: Arguments) -> BrowseInteractiveAction:
    return BrowseInteractiveAction(
        browser_actions=arguments["code"], security_risk=risk_of(arguments), return_axtree=False
    )


BROWSER = Tool(
    name="browser",
    description=(
        "Open web pages and act on them in a real browser. The answer has the page's address, its accessibility tree "
        "and what went wrong; the number in brackets before an element, such as [a12], is its bid. Pages that you "
        "serve in this sandbox are at http://localhost:PORT. To see a picture or a PDF file, open ADDRESS/view?path= "
        "with its absolute path; ADDRESS is in /tmp/oh-server-url. For the text of a page on the internet curl is "
        "often enough. Bids change with the page: act on those of the latest answer. Several calls can stand in one "
        "code, a line each; after one that fails the rest is not done. The functions:\n" + _FUNCTIONS
    ),
    parameters={
        "code": {
            "type": "string",
            "description": "Calls of these functions with literal arguments, such as goto('http://localhost:8000').",
        },
        "security_risk": RISK_PARAMETER,
    },
    required=("code", "security_risk"),
    actions=(BrowseInteractiveAction,),
    to_action=_to_action,
    plugin="browser",
)
