"""What all readers of other agents' sessions make their events with."""

from __future__ import annotations

import pytest

from core.import_export.agents.transcript import Transcript, difference


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ("a\r\nb\r\n", "a\nb\n", ["-a\r", "-b\r", "+a", "+b"]),
        ("x = 'a\u2028b'\n", "x = 'a\u2028c'\n", ["-x = 'a\u2028b'", "+x = 'a\u2028c'"]),
        ("a\n", "a\n\n", [" a", "+"]),
        ("", "a", ["+a"]),
    ],
)
def test_only_line_feeds_end_the_lines_of_a_diff(before: str, after: str, changes: list[str]) -> None:
    assert (difference(before, after, "f") or "").split("\n")[3:] == changes


def test_change_of_a_notebook_cell_shows_the_new_text_and_no_new_file() -> None:
    transcript = Transcript("claude-code")
    transcript.call("1", "NotebookEdit", {"notebook_path": "/w/a.ipynb", "cell_id": "c2", "new_source": "x = 1\ny = 2"})
    transcript.result("1", "Updated cell c2.")
    call, result = transcript.forms
    assert (call["action"], call["args"]["path"], call["args"]["command"]) == ("edit", "/w/a.ipynb", "")
    assert result["extras"]["diff"] == " cell c2\n+x = 1\n+y = 2"
    assert result["extras"]["prev_exist"] is True


def test_deletion_of_a_notebook_cell_names_it() -> None:
    transcript = Transcript("claude-code")
    transcript.call("1", "NotebookEdit", {"notebook_path": "/w/a.ipynb", "cell_id": "c2", "edit_mode": "delete"})
    assert transcript.forms[0]["args"]["content"] == " cell c2"


@pytest.mark.parametrize(
    ("patch", "diff"),
    [
        ("*** Begin Patch\n*** Update File: b.py\n@@\n-x = 3\n+x = 4\n*** End Patch", "-x = 3\n+x = 4"),
        (
            "*** Begin Patch\n*** Update File: b.py\n@@ def f():\n a\n-b\n@@\n+c\n*** End of File\n*** End Patch",
            " def f():\n a\n-b\n …\n+c",
        ),
        (
            "*** Begin Patch\n*** Add File: a\n+1\n*** Delete File: b\n*** End Patch",
            " a\n+1\n b",
        ),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-1\n+2", "--- a\n+++ b\n@@ -1 +1 @@\n-1\n+2"),
    ],
)
def test_patch_is_shown_as_the_lines_that_it_changes(patch: str, diff: str) -> None:
    transcript = Transcript("codex")
    transcript.call("1", "apply_patch", {"input": patch})
    transcript.result("1", "Done.")
    assert transcript.forms[1]["extras"]["diff"] == diff
