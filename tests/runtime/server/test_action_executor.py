"""One table, one handler an action, and no exception that escapes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentThinkAction,
    AgentThinkObservation,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    ErrorObservation,
    IPythonRunCellAction,
    MessageAction,
    NullObservation,
    Observation,
    TaskTrackingAction,
    TaskTrackingObservation,
    UserRejectObservation,
)
from runtime.server.action_executor import ActionExecutor, Emit, Handler, Table, TaskList, merge
from runtime.server.bash_session import BashSession
from runtime.server.file_actions import Files
from tests.runtime.conftest import Watcher, every_plugin


def raising(error: Exception) -> Handler:
    async def handler(action: Action, action_id: int, emit: Emit) -> Observation:
        raise error

    return handler


async def execute(action: Action, *tables: Table) -> Observation:
    return await ActionExecutor(tables).execute(action, 1, Watcher().emit)


def test_each_action_of_the_server_and_its_plugins_has_one_handler(tmp_path: Path) -> None:
    folder = str(tmp_path)
    tables = [BashSession(folder).table, Files(lambda: folder).table, TaskList().table]
    assert all(action.runnable for action in merge([*tables, *every_plugin(tmp_path).tables]))


def test_two_handlers_that_claim_one_action_are_refused() -> None:
    with pytest.raises(ValueError, match="two handlers claim TaskTrackingAction"):
        merge([TaskList().table, TaskList().table])


async def test_thought_is_logged() -> None:
    assert await execute(AgentThinkAction(thought="hm")) == AgentThinkObservation(
        content="Your thought has been logged."
    )


async def test_action_without_a_handler_is_an_error() -> None:
    observation = await execute(IPythonRunCellAction(code="1"))
    assert isinstance(observation, ErrorObservation)
    assert observation.content.startswith("Action run_ipython is not supported in the current runtime.")


@pytest.mark.parametrize("action", [BrowseURLAction(url="http://x"), BrowseInteractiveAction(browser_actions="noop()")])
async def test_missing_browser_gives_v0s_message(action: Action) -> None:
    assert await execute(action) == ErrorObservation(content="Browser functionality is not supported or disabled.")


async def test_action_that_is_not_runnable_gives_a_null_observation() -> None:
    assert await execute(MessageAction(content="hi")) == NullObservation()


async def test_unconfirmed_action_is_not_run(tmp_path: Path) -> None:
    table = BashSession(str(tmp_path)).table
    waiting = CmdRunAction(command="x", confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
    rejected = CmdRunAction(command="x", confirmation_state=ActionConfirmationStatus.REJECTED)
    assert await execute(waiting, table) == NullObservation()
    assert await execute(rejected, table) == UserRejectObservation(
        content="Action has been rejected by the user! Waiting for further user input."
    )


async def test_exception_in_a_handler_becomes_an_error_observation_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        observation = await execute(CmdRunAction(command="x"), {CmdRunAction: raising(KeyError("lost"))})
    assert observation == ErrorObservation(content="KeyError: 'lost'")
    assert "Traceback" in caplog.text


async def test_permission_error_becomes_an_error_observation() -> None:
    error = PermissionError(13, "Permission denied", "/root/x")
    observation = await execute(CmdRunAction(command="x"), {CmdRunAction: raising(error)})
    assert observation == ErrorObservation(content="Permission denied: /root/x. Choose another path.")


async def test_connection_error_is_raised() -> None:
    with pytest.raises(ConnectionResetError):
        await execute(CmdRunAction(command="x"), {CmdRunAction: raising(ConnectionResetError())})


async def test_uptime_and_idle_time_are_reported() -> None:
    executor = ActionExecutor([])
    await executor.execute(AgentThinkAction(), 1, Watcher().emit)
    assert 0 <= executor.idle_s <= executor.uptime_s


class TestPlan:
    TASKS = [
        {"title": "Look", "status": "done", "notes": "found it"},
        {"title": "Fix", "status": "in_progress"},
        {"title": "Test", "status": "todo"},
    ]

    async def track(self, tasks: TaskList, action: TaskTrackingAction) -> Observation:
        return await execute(action, tasks.table)

    async def test_task_list_is_empty_at_first(self) -> None:
        assert await self.track(TaskList(), TaskTrackingAction()) == TaskTrackingObservation(
            content='No task list found. Use the "plan" command to create one.', command="view"
        )

    async def test_task_list_is_written_and_shown(self, tmp_path: Path) -> None:
        tasks = TaskList(tmp_path)
        observation = await self.track(tasks, TaskTrackingAction(command="plan", task_list=self.TASKS))
        path = tmp_path / "TASKS.md"
        assert observation == TaskTrackingObservation(
            content=f"Task list has been updated with 3 items. Stored in session directory: {path}",
            command="plan",
            task_list=self.TASKS,
        )
        shown = "# Task List\n\n1. ✅ Look\nfound it\n2. 🔄 Fix\n\n3. ⏳ Test\n\n"
        assert path.read_text() == shown
        assert await self.track(tasks, TaskTrackingAction()) == TaskTrackingObservation(
            content=shown, command="view", task_list=self.TASKS
        )

    async def test_unwritable_folder_is_named(self, tmp_path: Path) -> None:
        observation = await self.track(
            TaskList(tmp_path / "gone"), TaskTrackingAction(command="plan", task_list=self.TASKS)
        )
        assert isinstance(observation, ErrorObservation)
        assert observation.content.startswith("Failed to write task list to ")
