"""What documents call an event."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.events import (
    Action,
    AgentDelegateAction,
    AgentFinishAction,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MCPAction,
    TaskTrackingAction,
    ToolCallMetadata,
)
from core.import_export.document_text import Entry, describe


def entry(event: Event) -> Entry:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return describe(Envelope(conversation_id="c", id=0, timestamp=at, source=EventSource.AGENT, event=event))


def test_text_beside_a_call_that_made_no_action_is_kept() -> None:
    error = entry(ErrorObservation(content="Tool x is not registered.", thought="I look."))
    assert (error.role, error.prose, error.text) == ("error", "I look.", "Tool x is not registered.")


def test_text_beside_the_end_and_beside_a_thought_is_kept() -> None:
    assert entry(AgentFinishAction(thought="All tests pass.", final_thought="Done.")).text == "All tests pass.\n\nDone."
    assert entry(AgentFinishAction(thought="Done.", final_thought="Done.")).text == "Done."
    response = {"choices": [{"message": {"content": "Hello!"}}]}
    called = ToolCallMetadata(
        function_name="think", tool_call_id="a", model_response=response, total_calls_in_response=1
    )
    assert entry(AgentThinkAction(thought="Hello!\nHm.", tool_call_metadata=called)).text == "Hello!\n\nHm."


def test_failed_cell_is_marked_and_names_its_exception() -> None:
    failed = entry(IPythonRunCellObservation(code="1/0", content="Traceback", exception="ZeroDivisionError: division"))
    assert (failed.role, failed.title, failed.failed) == ("result", "ZeroDivisionError: division", True)


@pytest.mark.parametrize(
    ("action", "title"),
    [
        (CmdRunAction(command="ls {0}"), "$ ls {0}"),
        (CmdRunAction(command="y", is_input=True), "Typed y"),
        (IPythonRunCellAction(code="1"), "Python"),
        (FileReadAction(path="a.py"), "Read a.py"),
        (FileWriteAction(path="{0.content}", content="x"), "Write {0.content}"),
        (FileEditAction(path="a.py", command="str_replace"), "Str replace a.py"),
        (FileEditAction(path="a.py"), "Edit a.py"),
        (BrowseURLAction(url="http://x/"), "Open http://x/"),
        (BrowseInteractiveAction(browser_actions="noop()"), "Browser"),
        (MCPAction(name="search"), "Tool search"),
        (AgentDelegateAction(agent="BrowsingAgent"), "Delegate to BrowsingAgent"),
        (TaskTrackingAction(command="plan", task_list=[{"title": "a"}]), "Managing 1 task item."),
    ],
)
def test_action_titles_name_the_operation_and_its_target(action: Action, title: str) -> None:
    told = entry(action)
    assert (told.role, told.title) == ("action", title)


@pytest.mark.parametrize(
    ("code", "title", "failed"), [(0, "exit code 0", False), (2, "exit code 2", True), (-1, "still running", False)]
)
def test_command_that_still_runs_has_not_failed(code: int, title: str, failed: bool) -> None:
    metadata = CmdOutputMetadata(exit_code=code)
    result = entry(CmdOutputObservation(command="vi", content="~", metadata=metadata))
    assert (result.title, result.failed) == (title, failed)
