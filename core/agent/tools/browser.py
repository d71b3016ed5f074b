"""browser: acts on web pages with the functions of BrowserGym, one call per line."""

from __future__ import annotations

from core.agent.tools.tool import RISK_PARAMETER, Arguments, Tool, risk_of
from core.events import BrowseInteractiveAction

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
        "serve in this sandbox are at http://localhost:PORT; for the text of a page on the internet curl is often "
        "enough. Bids change with the page: act on those of the latest answer. Several calls can stand in one code, a "
        "line each; after one that fails the rest is not done. The functions:\n" + _FUNCTIONS
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
