"""The recorded folder in the texts of actions is replaced by that of the run; longer names are not."""

from __future__ import annotations

import pytest

from core.events import CmdRunAction, FileEditAction, IPythonRunCellAction
from core.rerun.recipe import Folders

HERE = Folders(("/workspace", "/home/me/project"), "/tmp/run", home="/home/me")


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("cd /workspace", "cd /tmp/run"),
        ("cd /workspace/a && ls '/workspace/b'", "cd /tmp/run/a && ls '/tmp/run/b'"),
        ("ls /home/me/project/src", "ls /tmp/run/src"),
        ("ls ~/project; echo $HOME/project ${HOME}/project", "ls /tmp/run; echo /tmp/run /tmp/run"),
        ("file:///workspace/x", "file:///tmp/run/x"),
        ("In /workspace.", "In /tmp/run."),
        ("/workspace2 /workspace.bak /workspace-old /srv/workspace ~/projects", None),
        ("/home/me/project/../other", "/tmp/run/../other"),
    ],
)
def test_only_the_recorded_folder_is_replaced(text: str, moved: str | None) -> None:
    assert HERE.move(text) == (text if moved is None else moved)


def test_folder_is_replaced_in_action_fields_but_not_in_thoughts() -> None:
    edit = FileEditAction(path="/workspace/a", command="str_replace", old_str="/workspace", new_str="/workspace/b",
                          thought="in /workspace")  # fmt: skip
    assert HERE.move_action(edit) == edit.model_copy(
        update={"path": "/tmp/run/a", "old_str": "/tmp/run", "new_str": "/tmp/run/b"}
    )
    run = CmdRunAction(command="ls /workspace", cwd="/workspace")
    assert HERE.move_action(run) == CmdRunAction(command="ls /tmp/run", cwd="/tmp/run")
    cell = IPythonRunCellAction(code="open('/workspace/a')")
    assert HERE.move_action(cell).code == "open('/tmp/run/a')"  # type: ignore[attr-defined]


def test_action_without_a_folder_stays_the_same_object() -> None:
    action = CmdRunAction(command="ls")
    assert HERE.move_action(action) is action


def test_root_and_new_folder_are_not_replaced() -> None:
    assert Folders(("/", "", "/tmp/run"), "/tmp/run").move("/ /tmp/run") == "/ /tmp/run"
