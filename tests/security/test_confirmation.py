"""Every acting action can wait for approval: by kind, risk and mode."""

from __future__ import annotations

import pytest

from core.events import (
    Action,
    ActionSecurityRisk,
    AgentDelegateAction,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    TaskTrackingAction,
)
from core.security.confirmation import ConfirmMode, needs_confirmation

ACTING: list[Action] = [
    CmdRunAction(command="ls"),
    IPythonRunCellAction(code="1"),
    FileWriteAction(path="f", content="x"),
    FileEditAction(path="f", command="create", file_text="x"),
    BrowseURLAction(url="http://localhost"),
    BrowseInteractiveAction(browser_actions="noop()"),
    MCPAction(name="tool"),
    AgentDelegateAction(agent="CodeActAgent"),
]
THOUGHTS: list[Action] = [AgentThinkAction(thought="hm"), TaskTrackingAction()]


def test_every_action_acts_or_not() -> None:
    told = {type(action) for action in (*ACTING, *THOUGHTS, FileReadAction(path="f"))}
    assert {cls for cls in Action.kinds.values() if cls.runnable} <= told


@pytest.mark.parametrize("action", ACTING, ids=lambda action: action.kind)
def test_acting_actions_need_confirmation(action: Action) -> None:
    assert needs_confirmation(action, ConfirmMode.ALWAYS)
    assert needs_confirmation(action, ConfirmMode.RISKY), "its risk is not known"
    assert not needs_confirmation(action, ConfirmMode.NEVER)


@pytest.mark.parametrize("action", ACTING, ids=lambda action: action.kind)
def test_acting_actions_have_a_confirmation_state(action: Action) -> None:
    if action.runnable:
        assert "confirmation_state" in type(action).model_fields


@pytest.mark.parametrize("action", THOUGHTS, ids=lambda action: action.kind)
@pytest.mark.parametrize("mode", ConfirmMode)
def test_thoughts_need_no_confirmation(action: Action, mode: ConfirmMode) -> None:
    assert not needs_confirmation(action, mode)


def test_reading_a_file_needs_no_confirmation() -> None:
    asks = {mode for mode in ConfirmMode if needs_confirmation(FileReadAction(path="f"), mode)}
    assert asks == {ConfirmMode.ALWAYS, ConfirmMode.AUTO_EDIT, ConfirmMode.PLAN}


@pytest.mark.parametrize(
    ("risk", "waits"),
    [
        (ActionSecurityRisk.UNKNOWN, True),
        (ActionSecurityRisk.LOW, False),
        (ActionSecurityRisk.MEDIUM, False),
        (ActionSecurityRisk.HIGH, True),
    ],
)
def test_risky_mode_confirms_high_and_unknown_risks(risk: ActionSecurityRisk, waits: bool) -> None:
    assert needs_confirmation(CmdRunAction(command="ls", security_risk=risk), ConfirmMode.RISKY) is waits
