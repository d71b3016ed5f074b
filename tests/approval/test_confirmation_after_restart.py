"""A question to the user is still open after the process was killed and the conversation is opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.settings.config import Settings
from tests.doubles import bash, call, write_script
from tests.killed import killed
from tests.session.test_session import FREE
from tests.warm_servers import WarmRuntime
from tui.workspace.conversation import ConversationTab
from tui.workspace.conversation_status import Mark, Wait

TASKS = [{"id": "1", "title": "Look", "status": "todo"}]
THINKS = [{"tool_calls": [call("think", thought=str(n))], "usage": {"cost": 1.0}} for n in range(9)]


def agent(**values: Any) -> Settings:
    return Settings.model_validate({"agent": {"confirm": "never", **values}})


@pytest.mark.parametrize(
    ("turns", "settings", "before", "after"),
    [
        ([{"tool_calls": [bash("ls")]}], Settings(), Wait.APPROVAL, Wait.APPROVAL),
        ([{"text": "Which one?"}], FREE, Wait.QUESTION, Wait.QUESTION),
        (THINKS, agent(max_iterations=2), Wait.LIMIT, Wait.LIMIT),
        (THINKS, agent(max_budget=2.0), Wait.LIMIT, Wait.LIMIT),
        ([{"text": "x", "fault": "server_error"}], FREE, Wait.MODEL, Wait.MODEL),
        ([{"tool_calls": [bash("kill -9 $PPID")]}], FREE, Wait.SANDBOX, Wait.SANDBOX),
        ([{"tool_calls": [bash("make")]}] * 4, FREE, Wait.STUCK, Wait.STUCK),
        (
            [{"tool_calls": [call("task_tracker", command="plan", task_list=TASKS)]}, {"text": "That is the plan."}],
            FREE,
            Wait.PLAN,
            Wait.PLAN,
        ),
        ([{"tool_calls": [bash("read x", timeout=600)]}], FREE, Wait.INPUT, Wait.RESTART),
    ],
    ids=["approval", "question", "steps", "budget", "model", "sandbox", "stuck", "plan", "input"],
)
async def test_action_still_waits_after_the_process_was_killed(
    tmp_path: Path, turns: list[dict[str, Any]], settings: Settings, before: Wait, after: Wait
) -> None:
    planner = "Planner" if before is Wait.PLAN else ""
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    model = write_script(tmp_path, turns)
    id = await killed(home, workspace, model, settings, reads=before is Wait.INPUT, agent=planner)
    async with ConversationManager(home, settings, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.open(id)
        await session.settled()
        tab = ConversationTab(session, lambda tab: None)
        await tab.start()
        assert (tab.waits_for, tab.mark) == (after, Mark.WAITING)
        await tab.aclose()
