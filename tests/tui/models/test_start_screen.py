"""The first start: from nothing to the first answer by keys alone, each step saying what comes next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from textual import events
from textual.widgets import Input

from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.llm.model_catalogue import KnownModel
from core.secrets.backends import FileBackend
from core.secrets.provider_keys import KeyWanted
from core.secrets.vault import Vault
from core.settings.screen_settings import ScreenSettings
from tests.tui.doubles import KeysDouble, ManagerDouble, OfferDouble, SessionDouble
from tests.tui.workspace.running_app import running, until
from tui.app import HandloomApp
from tui.cli.options import StartOptions
from tui.models.commands import ModelPicker
from tui.models.key_screen import KeyScreen
from tui.models.start_screen import DEFAULT_URL, Offer, StartScreen

DEMO = [OfferDouble("demo", "Demo, without a model")]


ANTHROPIC = KeyWanted("anthropic/claude-test", "ANTHROPIC_API_KEY", "Anthropic")
MISTRAL = KeyWanted("mistral/new", "MISTRAL_API_KEY", "Mistral")


def without_keys(place: Path, **given: Any) -> ManagerDouble:
    """A machine on which no key was found."""
    vault = Vault(place, FileBackend(place))
    keys = KeysDouble(offered=[(ANTHROPIC, False), (MISTRAL, False)], wanted={MISTRAL.model: MISTRAL})
    return ManagerDouble(models=DEMO, keys=keys, vault=vault, **given)


async def test_pasted_key_is_checked_and_its_model_chosen(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    async with running(manager=manager, model=None) as it:
        assert "Anthropic" in it.screen_text()
        assert "Mistral" not in it.screen_text(), "the list of all models has it"
        await it.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        assert "API key of Anthropic" in it.screen_text()
        await it.press(*"sk-secret", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert "sk-secret" not in it.screen_text()
        assert manager.keys.added == [("ANTHROPIC_API_KEY", "sk-secret")]
        assert manager.chosen == [("anthropic/claude-test", "")]


async def test_refused_key_is_told_and_can_be_corrected(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    manager.keys.refusal = "The key was not accepted (401)."
    async with running(manager=manager, model=None) as it:
        await it.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        await it.press(*"sk-wrong", "enter")
        await until(it.pilot, lambda: "not accepted" in it.screen_text())
        assert manager.chosen == [], "no model without a working key becomes the default"
        manager.keys.refusal = ""
        await it.press(*"sk-right", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.keys.added == [("ANTHROPIC_API_KEY", "sk-right")]


async def test_picked_model_without_a_key_asks_for_it(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    async with running(manager=manager, model=None) as it:
        await it.press("3", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ModelPicker))
        await it.press(*"mistral/new", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        await it.press("escape")
        await until(it.pilot, lambda: isinstance(it.app.screen, StartScreen))
        await it.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ModelPicker))
        await it.press(*"mistral/new", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        await it.press(*"sk-mistral", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.keys.added == [("MISTRAL_API_KEY", "sk-mistral")]


async def test_endpoint_with_a_key_becomes_a_named_model(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    async with running(manager=manager, model=None) as it:
        await it.press("2", "enter", "enter", *"qwen", "enter", *"sk-mine", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.keys.added == [("http://localhost:11434/v1", "sk-mine")]
        assert manager.chosen == [("named-qwen", "")]


async def test_endpoint_without_a_key_is_asked_before_it_becomes_the_default(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    manager.keys.refusal = "The endpoint cannot be reached."
    async with running(manager=manager, model=None) as it:
        await it.press("2", "enter", "enter", *"m1", "enter", "enter")
        await until(it.pilot, lambda: "cannot be reached" in it.screen_text())
        assert "Enter uses it all the same." in it.screen_text()
        assert manager.chosen == []
        await it.press("enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.chosen == [("openai/m1", DEFAULT_URL)]
        assert manager.keys.checked == [(DEFAULT_URL, "openai/m1")]


async def test_key_pasted_while_another_is_checked_takes_its_place() -> None:
    asked: list[str] = []
    answer = asyncio.Event()

    async def add(key: str) -> None:
        asked.append(key)
        await answer.wait()
        raise ModelError(ModelErrorKind.AUTHENTICATION, "Not accepted.")

    async with running() as it:
        await it.app.push_screen(KeyScreen(ANTHROPIC, "a file", add))
        await it.press(*"wrong", "enter", "enter")
        await it.press(*"right")
        answer.set()
        await until(it.pilot, lambda: "Not accepted." in it.screen_text())
        await it.press("enter")
        await until(it.pilot, lambda: len(asked) == 2)
        assert asked == ["wrong", "right"]


async def test_login_begins_with_the_provider_of_the_conversation_and_checks_with_its_model(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    async with running(manager=manager) as it:
        await it.session.active_model.switch("mistral/own")
        await it.press(*"/login", "enter")
        await it.settle()
        await it.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        assert "API key of Mistral" in it.screen_text()
        assert "mistral/own" in it.screen_text()


async def test_key_of_an_endpoint_that_the_environment_names_is_asked_for_and_checked(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    manager.keys.refusal = "The key was not accepted (401)."
    manager.models = [OfferDouble("mistral/", "Mistral, at http://localhost:1/v1"), *DEMO]
    async with running(manager=manager, model=None) as it:
        await it.press("1", "enter", *"mine", "enter", *"sk-wrong", "enter")
        await until(it.pilot, lambda: "not accepted" in it.screen_text())
        assert manager.chosen == []
        manager.keys.refusal = ""
        await it.press(*["backspace"] * len("wrong"), *"right", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert manager.keys.added == [("MISTRAL_API_KEY", "sk-right")]
        assert manager.chosen == [("mistral/mine", "")]


async def test_configured_model_without_a_key_asks_for_it_before_a_conversation(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    async with running(manager=manager, model="mistral/new") as it:
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        await it.press("escape")
        await it.settle()
        assert it.app.tabs.current is None
        assert "No model is chosen" in it.screen_text()
        await it.press("ctrl+n")
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        await it.press(*"sk-mistral", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)


async def test_login_replaces_a_key(tmp_path: Path) -> None:
    manager = without_keys(tmp_path)
    async with running(manager=manager) as it:
        await it.press(*"/login", "enter")
        await until(it.pilot, lambda: "no key yet" in it.screen_text())
        await it.press(*"mistral", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, KeyScreen))
        await it.press(*"sk-mistral", "enter")
        await until(it.pilot, lambda: it.shows_the_workspace)
        assert manager.keys.added == [("MISTRAL_API_KEY", "sk-mistral")]


async def test_without_a_key_the_demo_can_be_started() -> None:
    async with running(manager=ManagerDouble(models=DEMO), model=None) as it:
        assert "Esc goes to the workspace" in it.screen_text()
        await it.press("up", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        await it.settle()
        assert it.app.workspace.prompt.text
        await it.press("enter")
        assert it.session.wishes == [("send", "Show me what you can do.")]


async def test_local_model_is_offered_before_the_demo_and_answers() -> None:
    near = [KnownModel(f"local:11434/m{n}", "Ollama :11434", True, why="served") for n in range(9)]
    async with running(manager=ManagerDouble(models=DEMO, near=near), model=None) as it:
        text = it.screen_text()
        assert "local:11434/m0 runs on this machine, and needs no key." in text
        assert ("m2 runs" in text, "m3 runs" in text) == (True, False), "the picker has the rest"
        await it.press("enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "local:11434/m0"


async def test_with_a_key_its_provider_is_highlighted_first() -> None:
    async with running(model=None) as it:
        await it.press("enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "anthropic/claude-test"


async def test_arrows_wrap_around_and_escape_leaves_the_fields() -> None:
    async with running(model=None) as it:
        await it.press("up", "up", "up", "enter")  # round to the last, then the endpoint
        screen = it.app.screen
        assert isinstance(screen, StartScreen)
        assert screen.query_one("#url", Input).has_focus
        await it.press("escape", "up", "up", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "anthropic/claude-test"


async def test_what_is_typed_right_after_enter_is_in_the_next_field(tmp_path: Path) -> None:
    async with running(manager=without_keys(tmp_path), model=None) as it:
        screen = it.app.screen
        await it.press("2", "enter")
        for key in ("x", "enter", "y", "enter", "z"):  # without waiting, as a paste or fast fingers
            it.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(it.pilot, lambda: any("z" in one.value for one in screen.query(Input)))
        assert [screen.query_one(f"#{name}", Input).value for name in ("url", "model", "key")] == ["x", "y", "z"]


async def test_any_model_can_be_named_on_the_start_screen() -> None:
    async with running(model=None) as it:
        await it.press("4", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ModelPicker))
        await it.press(*"mistral/new", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "mistral/new"


async def test_digit_highlights_and_only_enter_chooses() -> None:
    async with running(model=None) as it:
        await it.press("5", "9", "0")
        assert isinstance(it.app.screen, StartScreen)
        (marked,) = it.app.screen.query(".offer.-at").results(Offer)
        assert marked.number == 5
        await it.press("enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "demo"


async def test_wrapped_notes_stay_below_their_labels() -> None:
    async with running((40, 24), model=None) as it:
        lines = it.screen_text().splitlines()
        at = next(number for number, line in enumerate(lines) if "in a scratch" in line)
        first, second = (line.strip("│ ").split("  ")[0] for line in lines[at : at + 2])
        assert first
        assert lines[at].index(first) == lines[at + 1].index(second)


async def test_early_keys_choose_nothing() -> None:
    async with running(model=None, screen=ScreenSettings()) as it:
        await it.press("3", "enter", "down", "enter")
        assert isinstance(it.app.screen, StartScreen)
        (marked,) = it.app.screen.query(".offer.-at").results(Offer)
        assert marked.number == 1
        it.clock.now += 1
        await it.press("up", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "demo"


async def test_text_meant_for_the_prompt_chooses_nothing() -> None:
    async with running(model=None, screen=ScreenSettings()) as it:
        it.clock.now += 5
        await it.press(*"fix 3 bugs", "enter")
        assert isinstance(it.app.screen, StartScreen)
        (marked,) = it.app.screen.query(".offer.-at").results(Offer)
        assert marked.number == 1
        it.clock.now += 2
        await it.press("3", "enter")
        assert it.app.screen.query_one("#url", Input).has_focus
        await it.press("enter", *"m1", "enter", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "openai/m1"


async def test_click_chooses() -> None:
    async with running(model=None) as it:
        demo = next(offer for offer in it.app.screen.query(Offer) if offer.number == 5)
        await it.pilot.click(demo)
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "demo"


async def test_leaving_the_start_screen_explains_how_to_return() -> None:
    async with running(model=None) as it:
        await it.press("escape")
        assert "Press ctrl+n to choose one" in it.screen_text()
        assert "No model is chosen" in it.screen_text()
        await it.press(*"hello", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, StartScreen))
        await it.press("5", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        await it.settle()
        assert it.session.wishes == [("send", "hello")]


async def test_every_word_of_the_way_back_fits_a_small_screen() -> None:
    async with running(model=None, size=(40, 14)) as it:
        await it.press("escape")
        assert "for all keys." in " ".join(it.screen_text().split())


async def test_messages_sent_during_startup_are_kept_in_order() -> None:
    started, manager = asyncio.Event(), ManagerDouble()

    async def connect() -> ConversationManager:
        await started.wait()
        return cast("ConversationManager", manager)

    app = HandloomApp(connect, StartOptions(workspace="/work", model="demo"))
    async with app.run_test() as pilot:
        await pilot.press(*"one", "enter", *"two", "enter", *"rest")
        started.set()
        await until(pilot, lambda: len(app.tabs.conversations) == 1)
        session = cast("SessionDouble", app.tabs.conversations[0].session)
        await until(pilot, lambda: len(session.wishes) == 2)
        assert session.wishes == [("send", "one"), ("send", "two")]
        assert app.workspace.prompt.text == "rest"


async def test_message_sent_before_the_start_screen_was_left_returns_to_the_prompt() -> None:
    async with running(model=None) as it:
        await it.press("escape")
        await it.press(*"hello", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, StartScreen))
        await it.press("escape")
        await until(it.pilot, lambda: it.shows_the_workspace)
        await it.settle()
        assert it.app.workspace.prompt.text == "hello"


async def test_unusable_model_is_reported_and_another_can_be_chosen() -> None:
    manager = ManagerDouble()
    async with running(manager=manager, model=None) as it:
        manager.fails_with = ConfigurationError("It needs a key, and X_API_KEY is not set.")
        await it.press("1", "enter")
        await until(it.pilot, lambda: it.shows_the_workspace)
        await it.settle()
        assert "X_API_KEY is not set" in it.screen_text()
        manager.fails_with = None
        await it.press("ctrl+n")
        await until(it.pilot, lambda: isinstance(it.app.screen, StartScreen))


async def test_ctrl_q_quits_from_the_start_screen() -> None:
    async with running(model=None) as it:
        await it.pilot.press("ctrl+q")
    assert it.manager.is_closed


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (20, 5)])
async def test_model_can_be_chosen_at_every_size(size: tuple[int, int]) -> None:
    async with running(size, model=None) as it:
        await it.press("up", "enter")
        await until(it.pilot, lambda: it.app.tabs.current is not None)
        assert it.session.active_model.name == "demo"
