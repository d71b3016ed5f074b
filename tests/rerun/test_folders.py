"""The recorded folder in the texts of actions is replaced by that of the run; longer names are not."""

from __future__ import annotations

import pytest

from core.events import CmdRunAction, FileEditAction, IPythonRunCellAction
from core.rerun.normalization import Folders

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
def test_the_folder_is_moved_and_what_only_looks_like_it_is_not(text: str, moved: str | None) -> None:
    assert HERE.moved(text) == (text if moved is None else moved)


def test_every_text_that_a_sandbox_acts_upon_is_moved_and_no_thought() -> None:
    edit = FileEditAction(path="/workspace/a", command="str_replace", old_str="/workspace", new_str="/workspace/b",
                          thought="in /workspace")  # fmt: skip
    assert HERE.moved_action(edit) == edit.model_copy(
        update={"path": "/tmp/run/a", "old_str": "/tmp/run", "new_str": "/tmp/run/b"}
    )
    run = CmdRunAction(command="ls /workspace", cwd="/workspace")
    assert HERE.moved_action(run) == CmdRunAction(command="ls /tmp/run", cwd="/tmp/run")
    cell = IPythonRunCellAction(code="open('/workspace/a')")
    assert HERE.moved_action(cell).code == "open('/tmp/run/a')"  # type: ignore[attr-defined]


def test_an_action_that_names_no_folder_stays_the_same_object() -> None:
    action = CmdRunAction(command="ls")
    assert HERE.moved_action(action) is action


def test_the_root_and_the_folder_of_the_run_are_nothing_to_move() -> None:
    assert Folders(("/", "", "/tmp/run"), "/tmp/run").moved("/ /tmp/run") == "/ /tmp/run"
