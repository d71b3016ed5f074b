"""delegate: give a part of the work to another agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from core.agent.tools.tool import Tool
from core.events import AgentDelegateAction

DEFAULT = "CodeActAgent"

MAX_NAMED, MAX_ABOUT_CHARS = 20, 160
"""Agents that a model is told of beside ours, and characters about each: every request has them."""
_KINDS = (
    f"The kind of agent: {DEFAULT}, if left out; ReadOnlyAgent, which only searches and reads; "
    "BrowsingAgent, which has the browser alone."
)


def delegate_to(others: Mapping[str, str]) -> Tool:
    """The tool with more agents to choose from, each with what it is for."""
    told = "".join(f" {name}: {about[:MAX_ABOUT_CHARS]}" for name, about in list(others.items())[:MAX_NAMED])
    agent = {**DELEGATE.parameters["agent"], "description": f"{_KINDS}{told}"}
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
