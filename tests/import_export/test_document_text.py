"""What documents call an event."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.events import (
    Action,
    AgentDelegateAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    Envelope,
    EventSource,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    TaskTrackingAction,
)
from core.import_export.document_text import describe


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
    at = datetime(2026, 11, 21, tzinfo=UTC)
    told = describe(Envelope(conversation_id="c", id=0, timestamp=at, source=EventSource.AGENT, event=action))
    assert (told.role, told.title) == ("action", title)
