"""Whatever acts can be held until the user says yes: by kind, by risk, by mode."""

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


def test_every_runnable_kind_is_told_to_act_or_not() -> None:
    told = {type(action) for action in (*ACTING, *THOUGHTS, FileReadAction(path="f"))}
    assert {cls for cls in Action.kinds.values() if cls.runnable} <= told


@pytest.mark.parametrize("action", ACTING, ids=lambda action: action.kind)
def test_what_acts_waits_unless_nothing_does(action: Action) -> None:
    assert needs_confirmation(action, ConfirmMode.ALWAYS)
    assert needs_confirmation(action, ConfirmMode.RISKY), "its risk is not known"
    assert not needs_confirmation(action, ConfirmMode.NEVER)


@pytest.mark.parametrize("action", ACTING, ids=lambda action: action.kind)
def test_what_acts_can_be_held_by_the_same_event(action: Action) -> None:
    if action.runnable:
        assert "confirmation_state" in type(action).model_fields


@pytest.mark.parametrize("action", THOUGHTS, ids=lambda action: action.kind)
@pytest.mark.parametrize("mode", ConfirmMode)
def test_thoughts_never_wait(action: Action, mode: ConfirmMode) -> None:
    assert not needs_confirmation(action, mode)


def test_reading_a_file_is_no_risk() -> None:
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
def test_in_risky_mode_high_and_unknown_risks_wait(risk: ActionSecurityRisk, waits: bool) -> None:
    assert needs_confirmation(CmdRunAction(command="ls", security_risk=risk), ConfirmMode.RISKY) is waits
