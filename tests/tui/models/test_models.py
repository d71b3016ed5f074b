"""The model picker: usable models first, with known figures; fast with thousands; any name can be typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from core.llm.model_catalogue import KnownModel
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import Running, running, until
from tests.yardstick import costs_at_most
from tui.dialogs.search_list import SHOWN, Clickable
from tui.models.commands import ModelPicker, compact_figures, figures

CLAUDE = KnownModel("anthropic/claude-x", "Anthropic", True, "ANTHROPIC_API_KEY", 200_000, 3.0, 15.0, True)
GPT = KnownModel("openai/gpt-x", "OpenAI", False, "OPENAI_API_KEY", None, None, None, None)
MANY = [KnownModel(f"groq/model-{n:04}", "Groq", False, "GROQ_API_KEY", 128_000, 0.1, 0.2, False) for n in range(2000)]


async def open_picker(it: Running) -> Clickable:
    await it.press("ctrl+x", "m")
    await until(it.pilot, lambda: isinstance(it.app.screen, ModelPicker))
    await it.settle()
    return it.app.screen.query_one(Clickable)


def shown(found: Clickable) -> list[str]:
    return [option.id for option in found.options if option.id]


async def test_recent_models_come_first_then_ready_ones_then_others() -> None:
    manager = ManagerDouble(catalogue=[CLAUDE, GPT])
    manager.add(model="ollama_chat/mine")
    async with running(manager=manager, size=(140, 40), model="ollama_chat/mine") as it:
        found = await open_picker(it)
        assert shown(found) == [
            "ollama_chat/mine",
            "anthropic/claude-test",
            "demo",
            "anthropic/claude-x",
            "openai/gpt-x",
        ]
        text = it.screen_text()
        assert "200k     $3.00 in   $15.00 out  reads images" in text
        assert "needs OPENAI_API_KEY" in text
        assert "answers here" in text


async def test_headings_stay_while_the_list_is_searched() -> None:
    async with running(manager=ManagerDouble(catalogue=[CLAUDE, GPT]), size=(140, 40)) as it:
        await open_picker(it)
        await it.press(*"gpt")
        text = it.screen_text()
        assert "needs OPENAI_API_KEY" in text
        assert "openai/gpt-x" in text
        assert "claude-x" not in text


async def test_model_is_chosen_where_no_conversation_is_open() -> None:
    manager = ManagerDouble(catalogue=[CLAUDE])
    async with running(manager=manager, model=None) as it:
        await it.press("escape")
        await it.press(*"/model", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ModelPicker))
        await it.press(*"claude-x", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "anthropic/claude-x"
        assert manager.chosen == [("anthropic/claude-x", "")]


async def test_model_missing_from_the_tables_can_be_typed_and_chosen() -> None:
    async with running(manager=ManagerDouble(catalogue=[CLAUDE])) as it:
        await open_picker(it)
        await it.press(*"claude-x", "enter")
        assert it.session.active_model.name == "anthropic/claude-x"
        await open_picker(it)
        await it.press(*"mistral/brand-new", "enter")
        assert it.session.active_model.name == "mistral/brand-new"


async def test_model_can_be_named_behind_the_slash_command() -> None:
    manager = ManagerDouble(catalogue=[CLAUDE])
    async with running(manager=manager) as it:
        await it.press(*"/model mistral/brand-new", "enter")
        await until(it.pilot, lambda: it.session.active_model.name == "mistral/brand-new")
        assert not isinstance(it.app.screen, ModelPicker)
    async with running(manager=(manager := ManagerDouble()), model=None) as it:
        await it.press("escape")
        await it.press(*"/model openai/x", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.chosen == [("openai/x", "")]


async def test_local_models_are_listed_without_the_tables() -> None:
    local = KnownModel("local:11434/qwen3", "Ollama :11434", True, why="served")
    mine = KnownModel("mine", "config.toml", True, "", 1000, 1.0, 2.0, None, "named")
    async with running(manager=ManagerDouble(near=[mine, local]), size=(140, 40)) as it:
        found = await open_picker(it)
        assert shown(found)[-2:] == ["mine", "local:11434/qwen3"]
        text = it.screen_text()
        for told in ("named in config.toml", "Ollama :11434", "runs on this machine, needs no key", "$1.00 in"):
            assert told in text
        await it.press(*"qwen3", "enter")
        assert it.session.active_model.name == "local:11434/qwen3"


async def test_picker_works_without_the_tables() -> None:
    async with running(manager=ManagerDouble()) as it:
        await open_picker(it)
        assert "The list of models could not be loaded." in it.screen_text()
        await it.press("escape")
        assert it.shows_the_workspace
        assert it.session.wishes == []


async def test_two_thousand_models_are_filtered_within_a_frame() -> None:
    async with running(manager=ManagerDouble(catalogue=MANY)) as it:
        found = await open_picker(it)
        assert found.option_count <= SHOWN + 1
        assert "more. Type to narrow down." in str(found.options[-1].prompt)
        picker = it.app.screen
        assert isinstance(picker, ModelPicker)
        picker.query_one("#find", Input).value = "model-19"
        with costs_at_most(15):
            picker.show()
        assert shown(found)[0] == "groq/model-1900"
        assert len(shown(found)) == 101  # the hundred rows and the typed one


async def test_wheel_and_double_click_work_like_keys() -> None:
    async with running(manager=ManagerDouble(catalogue=MANY)) as it:
        found = await open_picker(it)
        row = found.get_option_index("groq/model-0003")
        await it.pilot.click(found, offset=(4, row))
        await it.pilot.pause()
        assert found.highlighted == row
        await it.pilot.click(found, offset=(4, row), times=2)
        await it.settle()
        assert it.session.active_model.name == "groq/model-0003"


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (20, 5)])
async def test_first_model_is_visible_at_every_size(size: tuple[int, int], tmp_path: Path) -> None:
    async with running(size, ManagerDouble(catalogue=[CLAUDE])) as it:
        await open_picker(it)
        await it.press(*"claude-x")
        assert "clau" in it.screen_text().replace(it.app.screen.query_one(Input).value, "", 1)


def test_unknown_figures_of_a_model_are_dashes() -> None:
    assert figures(GPT).split() == ["—", "—", "in", "—", "out", "—"]
    assert compact_figures(GPT) == "— —/—"
    assert compact_figures(CLAUDE) == "200k $3.00/$15.00 pictures"
