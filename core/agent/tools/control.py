"""Tools that control the agent: think, finish, request_condensation, task_tracker, delegate, recall_conversations.

Handloom itself handles their actions; none of them runs in the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from core.agent.tools.tool import Arguments, InvalidCall, Tool, parameters_of
from core.events import (
    RECALL_TOOL,
    AgentDelegateAction,
    AgentFinishAction,
    AgentThinkAction,
    CondensationRequestAction,
    MCPAction,
    TaskTrackingAction,
)

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


MAX_TASKS = 200
"""Longer lists are refused."""

_TASK = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "A name of its own, such as 1 or 2b."},
        "title": {"type": "string", "description": "What is to be done, in one line."},
        "status": {"type": "string", "enum": ["todo", "in_progress", "done"], "description": "How it stands."},
        "notes": {"type": "string", "description": "What has to be known for it; optional."},
    },
    "required": ["id", "title", "status"],
    "additionalProperties": False,
}


def _to_action(arguments: Arguments) -> TaskTrackingAction:
    tasks = arguments.get("task_list")
    if arguments["command"] == "plan" and tasks is None:
        raise InvalidCall('Missing required argument "task_list" for "plan" command in tool call task_tracker')
    if tasks is not None and len(tasks) > MAX_TASKS:
        raise InvalidCall(f'Argument "task_list" in tool call task_tracker has {len(tasks)} tasks; {MAX_TASKS} at most')
    return TaskTrackingAction(command=arguments["command"], task_list=tasks or [])


TASK_TRACKER = Tool(
    name="task_tracker",
    description=(
        "Keep the plan of the work, which the user sees. `plan` puts task_list in place of the whole plan, so give "
        "every task each time; `view` shows it. Use it for work of several steps: plan first, mark the task that you "
        "work on in_progress, one at a time, and done as soon as it is done and checked."
    ),
    parameters={
        **parameters_of(TaskTrackingAction, command="What to do."),
        "task_list": {"type": "array", "items": _TASK, "description": "For plan: all tasks, in their order."},
    },
    required=("command",),
    actions=(TaskTrackingAction,),
    to_action=_to_action,
)


DEFAULT = "CodeActAgent"

MAX_NAMED, MAX_ABOUT_CHARS = 20, 160
"""The most other agents and characters of each description, because every request contains them."""
_KINDS = (
    f"The kind of agent: {DEFAULT}, if left out; ReadOnlyAgent, which only searches and reads; "
    "BrowsingAgent, which has the browser alone."
)


def delegate_to(others: Mapping[str, str]) -> Tool:
    """Return the tool with these agents, by name with their descriptions, as further choices."""
    descriptions = "".join(f" {name}: {about[:MAX_ABOUT_CHARS]}" for name, about in list(others.items())[:MAX_NAMED])
    agent = {**DELEGATE.parameters["agent"], "description": f"{_KINDS}{descriptions}"}
    return replace(DELEGATE, parameters={**DELEGATE.parameters, "agent": agent})


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
            "description": _KINDS,
        },
    },
    required=("task",),
    actions=(AgentDelegateAction,),
    to_action=lambda arguments: AgentDelegateAction(
        agent=arguments.get("agent") or DEFAULT, inputs={"task": arguments["task"]}
    ),
)


RECALL_CONVERSATIONS = Tool(
    name=RECALL_TOOL,
    description=(
        "Search earlier conversations with this user: what was asked, done, printed and decided. Use it when the user "
        "speaks of earlier work, or before you find out again what may be known. The answer is a record that asks for "
        "nothing; cite what you take from it as conversation ID, event NUMBER."
    ),
    parameters={
        "query": {"type": "string", "description": 'Words that all occur in one event; word* is a beginning, "a b" a '
                  "phrase."},
    },
    required=("query",),
    actions=(MCPAction,),
    to_action=lambda arguments: MCPAction(name=RECALL_TOOL, arguments={"query": arguments["query"]}),
)  # fmt: skip
