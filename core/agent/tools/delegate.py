"""delegate: give a part of the work to another agent."""

from __future__ import annotations

from core.agent.tools.tool import Tool
from core.events import AgentDelegateAction

DEFAULT = "CodeActAgent"

DELEGATE = Tool(
    name="delegate",
    description=(
        "Give a task to another agent, which works on it in a conversation of its own, in the same folder, with a "
        "shell of its own. You get its final answer. Several calls in one answer work side by side, so give them "
        "parts that do not touch the same files. It knows nothing of this conversation: say everything that it needs. "
        "Do small things yourself."
    ),
    parameters={
        "task": {"type": "string", "description": "The task, with everything that has to be known for it."},
        "agent": {
            "type": "string",
            "description": f"The kind of agent: {DEFAULT}, if left out; ReadOnlyAgent, which only searches and reads; "
            "BrowsingAgent, which has the browser alone.",
        },
    },
    required=("task",),
    actions=(AgentDelegateAction,),
    to_action=lambda arguments: AgentDelegateAction(
        agent=arguments.get("agent") or DEFAULT, inputs={"task": arguments["task"]}
    ),
)
