"""Compacting and memories, from the prompt, the screen and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.events import CondensationAction
from core.memory.saved_facts import SavedFacts
from tests.tui.chat.events import conversation, folded
from tests.tui.workspace.running_app import running, until
from tui.__main__ import main
from tui.chat.blocks import Kind
from tui.dialogs.dialog import ChoiceScreen, SureScreen


async def test_compact_command_accepts_instructions() -> None:
    async with running() as it:
        it.app.workspace.prompt.put("/compact the port number")
        await it.press("enter")
        it.app.workspace.prompt.put("/compact")
        await it.press("escape", "enter")
        assert ("compact", "the port number") in it.session.wishes


async def test_fact_is_pinned_listed_and_forgotten(tmp_path: Path) -> None:
    async with running() as it:
        it.manager.store.home = tmp_path
        pins = SavedFacts(tmp_path)
        it.app.workspace.prompt.put("/remember Use tabs.")
        await it.press("enter")
        await until(it.pilot, lambda: len(pins.all()) == 1)
        it.app.workspace.prompt.put("/rememberall Be short.")
        await it.press("enter")
        await until(it.pilot, lambda: len(pins.all()) == 2)
        assert [bool(fact.workspace) for fact in pins.all()] == [True, False]
        await it.press("ctrl+x", "b")
        await until(it.pilot, lambda: isinstance(it.app.screen, ChoiceScreen))
        await it.pilot.pause()
        assert "Use tabs." in it.screen_text()
        assert "everywhere" in it.screen_text()
        await it.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.press("down", "enter")
        await until(it.pilot, lambda: [fact.text for fact in pins.all()] == ["Be short."])
        await until(it.pilot, lambda: isinstance(it.app.screen, ChoiceScreen))
        await it.press("escape")


def test_condensation_is_a_block_that_unfolds_its_summary() -> None:
    summary = "The user wants a parser.\nIt is half done.\nNext: the tests.\x1b[31m"
    action = CondensationAction(
        forgotten_events_start_id=3, forgotten_events_end_id=9, summary=summary, summary_offset=2
    )
    block = folded(conversation(action)).blocks[-1]
    assert (block.kind, block.title, block.can_fold) == (Kind.TOOL, "condensed: 7 events, summary", True)
    assert "half done" in block.text
    assert "\x1b" not in block.text
    without = CondensationAction(forgotten_event_ids=[1, 2], note="The provider is down.")
    line = folded(conversation(without)).blocks[-1]
    assert line.title == "2 older events are no longer shown to the model. The provider is down."
    nothing = folded(conversation(CondensationAction(forgotten_event_ids=[]))).blocks
    assert len(nothing) == len(folded(conversation()).blocks)


def test_memory_is_managed_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HANDLOOM_HOME", str(tmp_path / "home"))
    assert main(["memory", "add", "Use tabs.", "--workspace", str(tmp_path)]) == 0
    assert main(["memory", "add", "Be short.", "--everywhere"]) == 0
    capsys.readouterr()
    assert main(["memory", "list", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(fact["number"], fact["text"], fact["workspace"]) for fact in listed] == [
        (1, "Use tabs.", str(tmp_path)),
        (2, "Be short.", ""),
    ]
    assert main(["memory", "forget", "1"]) == 0
    assert main(["memory", "list"]) == 0
    assert "Be short.  (everywhere)" in capsys.readouterr().out
    assert main(["memory", "forget", "7"]) == 2
    assert "handloom memory list" in capsys.readouterr().err
