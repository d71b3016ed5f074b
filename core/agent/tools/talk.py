"""think, finish and request_condensation: what the agent says to itself, that it is done, that it forgets."""

from __future__ import annotations

from core.agent.tools.tool import Tool, parameters_of
from core.events import AgentFinishAction, AgentThinkAction, CondensationRequestAction

THINK = Tool(
    name="think",
    description=(
        "Write a thought down. Nothing is looked up and nothing is changed. Use it before a difficult "
        "decision: to weigh causes of a bug, ways to a change, or what a failed test tells."
    ),
    parameters=parameters_of(AgentThinkAction, thought="The thought."),
    required=("thought",),
    actions=(AgentThinkAction,),
    to_action=lambda arguments: AgentThinkAction(thought=arguments["thought"]),
)

FINISH = Tool(
    name="finish",
    description=(
        "Say that the task is done, or that you can go no further. Call it alone, as the last thing, after "
        "you have checked your work."
    ),
    parameters={
        "message": {
            "type": "string",
            "description": "What the user reads, in Markdown: what was done and checked, and what is left.",
        }
    },
    required=("message",),
    actions=(AgentFinishAction,),
    to_action=lambda arguments: AgentFinishAction(final_thought=arguments["message"]),
)

REQUEST_CONDENSATION = Tool(
    name="request_condensation",
    description=(
        "Have the older part of this conversation condensed, so that there is room again. Call it alone, when much of "
        "what was said and done no longer matters for what is left."
    ),
    parameters={},
    required=(),
    actions=(CondensationRequestAction,),
    to_action=lambda arguments: CondensationRequestAction(),
    alone=True,
)
