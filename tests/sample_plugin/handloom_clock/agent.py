"""An agent of its own: it tells the time and does nothing else."""

from core.agent.tool_agent import ToolAgent, read_prompt
from core.agent.tools import FINISH
from handloom_clock.tools import TOOLS


class ClockKeeper(ToolAgent):
    """Calls the clock and reports its time."""

    name = "ClockKeeper"
    description = "Tells the time."
    prompt = read_prompt("keeper", "handloom_clock")
    tools = (*TOOLS, FINISH)
    takes_more = False
