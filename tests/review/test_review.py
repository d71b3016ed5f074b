"""The changes of a conversation, accepted or reverted by file and hunk, with real folders and checkpoints.

Hunks together give the exact bytes.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.controller.decide import fold
from core.errors import UsageError
from core.events import ReviewAction, UndoObservation
from core.memory.conversation_memory import build_messages
from core.review.review import MAX_BYTES, MAX_LINES, Changes, Hunk, applied, comment, hunks, split
from core.session.agent_session import AgentSession
from tests.checkpoints.test_turns import conversation, read, rested
from tests.doubles import FINISH, bash

LINES = st.lists(st.sampled_from([b"a", b"b", b"\r", b"\xff\xfe", b"\x0c", "é\u2028".encode()]), max_size=12)
CONTENTS = st.tuples(LINES, st.booleans()).map(lambda drawn: b"\n".join(drawn[0]) + (b"\n" if drawn[1] else b""))


@given(CONTENTS, CONTENTS)
def test_applying_all_hunks_gives_the_new_content_and_none_the_old(old: bytes, new: bytes) -> None:
    found = hunks(old, new)
    assert found is not None
    assert applied(old, new, range(len(found))) == new
    assert applied(old, new, ()) == old
    assert bool(found) == (old != new)


@given(CONTENTS, CONTENTS)
def test_remaining_hunks_are_those_not_applied(old: bytes, new: bytes) -> None:
    """Applying a hunk and then all remaining ones gives the new content, in any order."""
    found = hunks(old, new) or []
    for number in range(len(found)):
        between = applied(old, new, {number})
        left = hunks(between, new)
        assert left is not None
        assert applied(between, new, range(len(left))) == new
        assert applied(old, new, set(range(len(found))) - {number}) != new


def test_each_selection_of_hunks_gives_the_expected_content() -> None:
    old = b"".join(b"%d\n" % n for n in range(30))
    new = old.replace(b"5\n", b"five\n", 1).replace(b"15\n", b"", 1).replace(b"25\n", b"25\n25b\n")
    found = hunks(old, new)
    assert found is not None
    assert len(found) == 3
    texts = {applied(old, new, chosen) for size in range(4) for chosen in combinations(range(3), size)}
    assert len(texts) == 8
    assert found[0].lines == ("@@ -3,7 +3,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8")
    assert applied(old, new, {1}) == old.replace(b"15\n", b"", 1)


@pytest.mark.parametrize("content", [b"\0", b"x\n" * (MAX_LINES + 1)])
def test_binary_or_huge_content_has_no_hunks(content: bytes) -> None:
    assert hunks(b"x\n", content) is None


def test_lines_end_only_at_line_feeds() -> None:
    assert split(b"a\r\nb\x0cc\n\nd") == [b"a\r\n", b"b\x0cc\n", b"\n", b"d"]


@pytest.mark.parametrize(
    ("old", "new", "hunk"),
    [
        (b"a\nb\n", b"A\nb\n", Hunk(0, 1, 0, 1, ("@@ -1,2 +1,2 @@", "-a", "+A", " b"))),
        (b"a\n", b"a\nb\n", Hunk(1, 1, 1, 2, ("@@ -1,1 +1,2 @@", " a", "+b"))),
        (b"0\n1\n2\n3\n4\n5\n6\n", b"0\n1\n2\n3\n4\n5\nsix\n",
         Hunk(6, 7, 6, 7, ("@@ -4,4 +4,4 @@", " 3", " 4", " 5", "-6", "+six"))),
        (b"0\n1\n2\n3\n4\n5\n", b"1\n2\n3\n4\n5\n", Hunk(0, 1, 0, 0, ("@@ -1,4 +1,3 @@", "-0", " 1", " 2", " 3"))),
        (b"", b"\xff", Hunk(0, 0, 0, 1, ("@@ -1,0 +1,1 @@", "+\ufffd"))),
    ],
)  # fmt: skip
def test_context_is_limited_by_the_file(old: bytes, new: bytes, hunk: Hunk) -> None:
    assert hunks(old, new) == [hunk]


def test_size_limit_applies_to_both_sides() -> None:
    for content in (b"\0", b"x\n" * (MAX_LINES + 1)):
        assert hunks(content, b"x\n") is None
    assert len(hunks(b"", b"x\n" * MAX_LINES) or ()) == 1
    assert len(hunks(b"x\n" * MAX_LINES, b"") or ()) == 1


BEFORE = "".join(f"{n}\n" for n in range(40))
TURNS = [
    {"tool_calls": [bash("sed -i -e 's/^5$/five/' -e 's/^30$/thirty/' list; echo 1 > a; rm gone; chmod +x a")]},
    FINISH,
    {"tool_calls": [bash("echo 2 >> a; printf '\\0' > raw")]},
    FINISH,
    {"text": "I see."},
]


async def worked(session: AgentSession, workspace: Path) -> None:
    """After it: two lines of `list` differ, `a` and `raw` are new, `gone` is gone; `mine` is another's doing."""
    (workspace / "list").write_text(BEFORE)
    (workspace / "gone").write_text("was here\n")
    await session.send("one")
    await rested(session)
    (workspace / "mine").write_text("of the user\n")
    await session.send("two")
    await rested(session)


async def changes(session: AgentSession) -> Changes:
    async with session.undo.review() as review:
        return await review.changes()


def names(found: Changes) -> list[str]:
    return [change.path for change in found.files]


async def accept(session: AgentSession, path: str | None = None, taken: Collection[int] | None = None) -> Changes:
    async with session.undo.review() as review:
        await review.accept(await review.changes(), path, taken)
        return await review.changes()


async def revert(session: AgentSession, path: str | None = None, taken: Collection[int] | None = None) -> Changes:
    async with session.undo.review() as review:
        done = await review.revert(await review.changes(), path, taken)
        assert done.done, done.why
        return await review.changes()


async def test_changes_of_the_agent_are_separated_from_those_of_others(tmp_path: Path) -> None:
    async with conversation(tmp_path, TURNS) as (session, _):
        await worked(session, tmp_path / "workspace")
        before = read(tmp_path / "workspace")
        found = await changes(session)
        assert names(found) == ["a", "gone", "list", "raw"]
        assert found.others == ("mine",)
        async with session.undo.review() as review:
            shown = await review.hunks(found, "list")
            assert shown is not None
            assert [[line for line in hunk.lines if line[0] in "-+"] for hunk in shown] == [
                ["-5", "+five"],
                ["-30", "+thirty"],
            ]
            assert await review.hunks(found, "raw") is None
            assert [len(await review.hunks(found, path) or ()) for path in ("a", "gone")] == [1, 1]
        assert read(tmp_path / "workspace") == before


async def test_hunk_then_file_then_all_changes_can_be_accepted(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await worked(session, workspace)
        before, messages = read(workspace), build_messages(await session.stream.read())
        found = await accept(session, "list", {0})
        async with session.undo.review() as review:
            left = await review.hunks(found, "list") or []
        assert len(left) == 1
        assert [line for line in left[0].lines if line[0] in "-+"] == ["-30", "+thirty"]
        assert names(await accept(session, "list")) == ["a", "gone", "raw"]
        assert names(await accept(session, "gone")) == ["a", "raw"]
        assert names(await accept(session)) == []
        assert read(workspace) == before, "accepting changes nothing in the workspace"
        log = await session.stream.read()
        assert [e.event.message for e in log if isinstance(e.event, ReviewAction)] == [
            "Accepted: 1 of the changes to list", "Accepted: list", "Accepted: gone", "Accepted: all changes",
        ]  # fmt: skip
        assert build_messages(log) == messages, "the model is told nothing of it"
        assert fold(log, session.state.limits) == session.state


async def test_hunk_and_files_can_be_reverted_and_redone(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await worked(session, workspace)
        before = read(workspace)
        await revert(session, "list", {1})
        assert read(workspace) == {**before, "list": BEFORE.replace("\n5\n", "\nfive\n")}
        assert names(await revert(session, "gone")) == ["a", "list", "raw"]
        assert read(workspace)["gone"] == "was here\n"
        assert names(await revert(session)) == []
        assert read(workspace) == {"list": BEFORE, "gone": "was here\n", "mine": "of the user\n"}
        log = await session.stream.read()
        assert sum(isinstance(e.event, UndoObservation) for e in log) == 3
        assert "The user has undone your changes to these files: list]" in str(build_messages(log))
        for _ in range(3):
            await session.undo.redo()
        assert read(workspace) == before
        assert (workspace / "a").stat().st_mode & 0o100, "what may be run may be run again"
        assert fold(await session.stream.read(), session.state.limits) == session.state


async def test_created_or_deleted_file_has_one_hunk(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await worked(session, workspace)
        assert names(await revert(session, "a", {0})) == ["gone", "list", "raw"]
        assert "a" not in read(workspace)
        assert names(await accept(session, "gone", {0})) == ["list", "raw"]
        with pytest.raises(UsageError, match="Accept or revert all of it"):
            await revert(session, "raw", {0})
        assert names(await revert(session, "raw")) == ["list"]


async def test_file_too_large_for_hunks_is_reviewed_as_a_whole(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    grows = f"head -c {MAX_BYTES} /dev/zero | tr '\\0' x > big; cp big fits; echo >> big"
    async with conversation(tmp_path, [{"tool_calls": [bash(grows)]}, FINISH]) as (session, _):
        await session.send("one")
        await rested(session)
        async with session.undo.review() as review:
            found = await review.changes()
            assert names(found) == ["big", "fits"]
            assert (await review.hunks(found, "big"), len(await review.hunks(found, "fits") or ())) == (None, 1)
            for decide in (review.accept, review.revert):
                with pytest.raises(UsageError, match="Accept or revert all of it"):
                    await decide(found, "big", {0})
                with pytest.raises(UsageError, match="has not changed"):
                    await decide(found, "other", {0})
        assert names(await accept(session, "big")) == ["fits"]
        assert names(await revert(session, "fits")) == []
        assert sorted(read(workspace)) == ["big"]


async def test_changes_made_after_the_list_was_shown_stop_the_review(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    async with conversation(tmp_path, TURNS) as (session, _):
        await worked(session, workspace)
        found = await changes(session)
        (workspace / "list").write_text("written while the user looked\n")
        async with session.undo.review() as review:
            with pytest.raises(UsageError, match="changed since"):
                await review.revert(found, "list")
            with pytest.raises(UsageError, match="changed since"):
                await review.accept(found)
        assert (workspace / "list").read_text() == "written while the user looked\n"


async def test_review_needs_a_first_turn(tmp_path: Path) -> None:
    async with conversation(tmp_path, TURNS) as (session, _):
        with pytest.raises(UsageError, match="There is no checkpoint"):
            await changes(session)


def test_comment_includes_its_hunk() -> None:
    said, beside = comment("src/a.py", ["@@ -1 +1 @@", "-a", "+b"], "why b?")
    assert said == "src/a.py: why b?"
    assert beside == "About this change of src/a.py:\n```diff\n@@ -1 +1 @@\n-a\n+b\n```"


def test_comment_on_a_file_has_no_hunk() -> None:
    assert comment("src/a.py", [], "why?") == ("src/a.py: why?", "")
