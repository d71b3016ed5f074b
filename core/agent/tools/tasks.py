"""task_tracker: the plan, which the user sees beside the work."""

from __future__ import annotations

from core.agent.tools.tool import Arguments, InvalidCall, Tool, parameters_of
from core.events import TaskTrackingAction

MAX_TASKS = 200
"""A longer list is no plan."""

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
