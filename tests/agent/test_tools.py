"""The parameters of the tools, and the actions that their calls make."""

from __future__ import annotations

from typing import Any

import pytest

from core.agent.tools import CODEACT_TOOLS, InvalidCall, Tool
from core.events import (
    Action,
    ActionSecurityRisk,
    AgentFinishAction,
    AgentThinkAction,
    CmdRunAction,
    FileEditAction,
    FileEditSource,
    FileReadAction,
    FileReadSource,
)

TOOLS = {tool.name: tool for tool in CODEACT_TOOLS}
BASH, EDITOR, TASKS = TOOLS["execute_bash"], TOOLS["str_replace_editor"], TOOLS["task_tracker"]


def test_tool_schemas_match_those_of_v0() -> None:
    shape = {
        name: (sorted(schema["properties"]), sorted(schema["required"]))
        for name, schema in ((tool.name, tool.schema()["function"]["parameters"]) for tool in CODEACT_TOOLS)
    }
    of_v0 = {
        "execute_bash": (["command", "is_input", "security_risk", "timeout"], ["command", "security_risk"]),
        "execute_ipython_cell": (["code", "security_risk"], ["code", "security_risk"]),
        "browser": (["code", "security_risk"], ["code", "security_risk"]),
        "think": (["thought"], ["thought"]),
        "finish": (["message"], ["message"]),
        "task_tracker": (["command", "task_list"], ["command"]),
        "delegate": (["agent", "task"], ["task"]),
        "str_replace_editor": (
            [
                "command",
                "file_text",
                "insert_line",
                "new_str",
                "old_str",
                "path",
                "security_risk",
                "view_range",
            ],
            ["command", "path", "security_risk"],
        ),
    }
    assert {name: shape[name] for name in of_v0} == of_v0


@pytest.mark.parametrize("tool", CODEACT_TOOLS, ids=lambda tool: tool.name)
def test_every_tool_makes_a_known_action(tool: Tool) -> None:
    assert all(action.runnable or action.delegated or action is AgentFinishAction for action in tool.actions)
    assert all(parameter["description"] for parameter in tool.parameters.values())


@pytest.mark.parametrize(
    ("tool", "arguments", "action"),
    [
        (BASH, {"command": "ls"}, CmdRunAction(command="ls")),
        (
            BASH,
            {"command": "C-c", "is_input": "true", "security_risk": "LOW"},
            CmdRunAction(command="C-c", is_input=True, security_risk=ActionSecurityRisk.LOW),
        ),
        (BASH, {"command": "", "is_input": "true"}, CmdRunAction(command="", is_input=True)),
        (BASH, {"command": "x", "timeout": 5}, CmdRunAction(command="x", timeout=5.0, blocking=True)),
        (BASH, {"command": "x", "timeout": 2.5}, CmdRunAction(command="x", timeout=2.5, blocking=True)),
        (BASH, {"command": "x", "timeout": None, "security_risk": "?"}, CmdRunAction(command="x")),
        (TOOLS["think"], {"thought": "hm"}, AgentThinkAction(thought="hm")),
        (TOOLS["finish"], {"message": "done"}, AgentFinishAction(final_thought="done")),
        (
            EDITOR,
            {"command": "view", "path": "/a", "view_range": [1, -1], "security_risk": "HIGH"},
            FileReadAction(
                path="/a",
                view_range=[1, -1],
                impl_source=FileReadSource.OH_ACI,
                security_risk=ActionSecurityRisk.HIGH,
            ),
        ),
        (
            EDITOR,
            {"command": "view", "path": "/a", "view_range": [3, 4]},
            FileReadAction(path="/a", view_range=[3, 4], impl_source=FileReadSource.OH_ACI),
        ),
        (
            EDITOR,
            {"command": "create", "path": "/a", "file_text": "text"},
            FileEditAction(path="/a", command="create", file_text="text", impl_source=FileEditSource.OH_ACI),
        ),
        (
            EDITOR,
            {"command": "str_replace", "path": "/a", "old_str": "x", "new_str": ""},
            FileEditAction(path="/a", command="str_replace", old_str="x", new_str=""),
        ),
        (
            EDITOR,
            {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "x"},
            FileEditAction(path="/a", command="insert", insert_line=0, new_str="x"),
        ),
        (EDITOR, {"command": "undo_edit", "path": "/a"}, FileEditAction(path="/a", command="undo_edit")),
    ],
)
def test_valid_call_becomes_its_action(tool: Tool, arguments: dict[str, Any], action: Action) -> None:
    assert tool.action_of(arguments) == action


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        (BASH, {}, 'Missing required argument "command" in tool call execute_bash'),
        (EDITOR, {"path": "/a"}, 'Missing required argument "command" in tool call str_replace_editor'),
        (EDITOR, {"command": "view"}, 'Missing required argument "path" in tool call str_replace_editor'),
        (BASH, {"command": 5}, 'Argument "command" in tool call execute_bash must be a string'),
        (BASH, {"command": None}, 'Argument "command" in tool call execute_bash must be a string'),
        (
            BASH,
            {"command": "x", "timeout": "soon"},
            'Argument "timeout" in tool call execute_bash must be a number',
        ),
        (
            BASH,
            {"command": "x", "timeout": True},
            'Argument "timeout" in tool call execute_bash must be a number',
        ),
        (
            BASH,
            {"command": "x", "timeout": "2.5"},
            'Argument "timeout" in tool call execute_bash must be a number',
        ),
        (
            BASH,
            {"command": "x", "is_input": True},
            'Argument "is_input" in tool call execute_bash must be a string',
        ),
        (
            TASKS,
            {"command": "plan"},
            'Missing required argument "task_list" for "plan" command in tool call task_tracker',
        ),
        (
            TASKS,
            {"command": "plan", "task_list": [{"id": "1", "title": "x", "status": "later"}]},
            'Argument "task_list" in tool call task_tracker [0].status must be one of: todo, in_progress, done',
        ),
        (
            TASKS,
            {"command": "plan", "task_list": [{"id": "1", "title": "x", "status": "todo"}, {"id": 2}]},
            'Argument "task_list" in tool call task_tracker [1] must have "title"',
        ),
        (
            TASKS,
            {"command": "plan", "task_list": [{"id": "1", "title": "x", "status": "todo", "owner": "me"}]},
            'Argument "task_list" in tool call task_tracker [0] may not have "owner"',
        ),
        (
            TASKS,
            {"command": "plan", "task_list": [{"id": "1", "title": "x", "status": "todo"}] * 201},
            'Argument "task_list" in tool call task_tracker has 201 tasks; 200 at most',
        ),
        (BASH, {"command": "x", "timeout": -1}, "Invalid float passed to 'timeout' argument: -1"),
        (
            BASH,
            {"command": "x", "cwd": "/"},
            "Unexpected argument cwd in tool call execute_bash. "
            "Allowed arguments are: command, is_input, security_risk, timeout",
        ),
        (
            BASH,
            {"command": "x", "is_input": "yes"},
            'Argument "is_input" in tool call execute_bash must be one of: true, false',
        ),
        (
            EDITOR,
            {"command": "delete", "path": "/a"},
            'Argument "command" in tool call str_replace_editor must be one of: '
            "view, create, str_replace, insert, undo_edit",
        ),
        (
            EDITOR,
            {"command": "view", "path": "/a", "view_range": ["a", "b"]},
            'Argument "view_range" in tool call str_replace_editor [0] must be an integer',
        ),
        (
            EDITOR,
            {"command": "insert", "path": "/a", "insert_line": 1.5},
            'Argument "insert_line" in tool call str_replace_editor must be an integer',
        ),
    ],
)
def test_invalid_call_is_refused_with_a_message(tool: Tool, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        tool.action_of(arguments)
    assert str(caught.value) == complaint
