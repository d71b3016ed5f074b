"""The tool by which a model asks."""

from core.agent.tools import Tool
from handloom_clock.events import TellTimeAction

TOOLS = (
    Tool(
        name="tell_time",
        description="Tells the time in a time zone.",
        parameters={"zone": {"type": "string", "description": "Such as Europe/Berlin."}},
        required=("zone",),
        actions=(TellTimeAction,),
        to_action=lambda arguments: TellTimeAction(zone=arguments["zone"]),
    ),
)
