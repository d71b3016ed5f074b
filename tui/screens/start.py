"""The start screen: which model answers, where none is configured. Number keys choose.

Answers with the model's name and the base URL of an endpoint, "" where the name says it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.text import sanitize_line

if TYPE_CHECKING:
    from core.llm.registry import ModelOffer

DEFAULT_URL = "http://localhost:11434/v1"


class ChosenModel(NamedTuple):
    """What the user wants to work with."""

    model: str
    base_url: str = ""


class StartScreen(ModalScreen[ChosenModel | None]):
    """Offers the models that can be used here."""

    DEFAULT_CSS = """
    StartScreen {
        align: center middle; background: $background;
        & > VerticalScroll {
            width: 90%; max-width: 76; height: auto; max-height: 100%; padding: 1 2;
            background: $surface; border: round $panel;
        }
        .offer { height: auto; margin-top: 1; }
        .endpoint { display: none; height: auto; margin-top: 1; }
        .endpoint.-asked { display: block; }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; margin-bottom: 1; }
    }
    """

    AUTO_FOCUS = ""  # nothing has the focus, so that digits choose

    def __init__(self, workspace: str, offers: Sequence[ModelOffer]) -> None:
        super().__init__()
        self._workspace = workspace
        self._offers = offers
        self._prefix = ""
        """The provider of an endpoint whose URL the environment names."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(Content.assemble(("Handloom", "bold $text-accent"), "   Which model shall answer?"))
            yield Static(Content.styled(f"Workspace {sanitize_line(self._workspace, 64)}", "$text-muted"))
            for number, (label, note) in enumerate(self._lines(), 1):
                parts = ((f" {number} ", "bold $text-accent"), (f" {sanitize_line(label, 64)}", "bold"))
                yield Static(Content.assemble(*parts, (f"\n    {note}", "$text-muted")), classes="offer")
            with Vertical(classes="endpoint"):
                yield Static(Content("URL of the endpoint"), classes="-url")
                yield Input(DEFAULT_URL, id="url", classes="-url")
                yield Static(Content("Model, as the endpoint names it"))
                yield Input(id="model", placeholder="qwen3-coder")
            yield Static(
                Content.styled("\nA number chooses. Esc goes to the workspace without a model.", "$text-muted")
            )

    def _lines(self) -> list[tuple[str, str]]:
        lines = []
        for offer in self._offers:
            if not offer.is_complete:
                note = "Asks for the model's name."
            elif offer.name == "demo":
                note = "Real commands in a scratch folder; no key, no network."
            else:
                note = f"{sanitize_line(offer.name, 56)}, with the key found in the environment."
            lines.append((offer.label, note))
        return [
            *lines,
            ("An OpenAI-compatible endpoint", "Ollama, vLLM, LM Studio, llama.cpp: asks for URL and model."),
        ]

    def on_key(self, event: events.Key) -> None:
        """A digit chooses, unless one is typing."""
        if event.key == "escape":
            event.stop()
            self.dismiss(None)
        elif event.character and event.character.isdigit() and not isinstance(self.focused, Input):
            event.stop()
            self._choose(int(event.character))

    def _choose(self, number: int) -> None:
        if not 1 <= number <= len(self._offers) + 1:
            return
        offer = self._offers[number - 1] if number <= len(self._offers) else None
        if offer is not None and offer.is_complete:
            self.dismiss(ChosenModel(offer.name))
            return
        self._prefix = offer.name if offer is not None else ""
        self.query(".-url").set(display=offer is None)
        self.query_one(".endpoint").add_class("-asked")
        self.query_one("#model", Input).focus()

    def on_input_submitted(self) -> None:
        """All fields are needed; Enter goes to the one that is empty."""
        url, model = (self.query_one(f"#{name}", Input) for name in ("url", "model"))
        for field in (url, model):
            if not field.value.strip() and field.display:
                field.focus()
                return
        name = model.value.strip()
        if self._prefix:
            self.dismiss(ChosenModel(self._prefix + name.removeprefix(self._prefix)))
        else:
            self.dismiss(ChosenModel("openai/" + name.removeprefix("openai/"), url.value.strip()))
