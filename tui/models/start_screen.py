"""The start screen: which model answers, where none configured. Enter or a click chooses.

Answers with the model's name and the base URL of an endpoint, "" where the name says it all; None where the user left.
Says at every step what comes next, and how to set a provider's key, because the user has read nothing yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from tui.dialogs.answer_list import DIGITS
from tui.dialogs.choice_dialog import GuardedScreen
from tui.dialogs.dialog import Field
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.llm.model_catalogue import KnownModel
    from core.llm.registry import ModelOffer

DEFAULT_URL = "http://localhost:11434/v1"
NO_KEY = _(
    "No provider's key was found. To use one, set its variable, such as ANTHROPIC_API_KEY, OPENAI_API_KEY or "
    "GEMINI_API_KEY, and start Handloom again. Handloom stores no keys."
)
NEXT = _("Move with ↑ ↓ or a number. Enter chooses. Esc goes to the workspace without a model. ctrl+q quits.")


MAX_SERVED = 3
"""The most models of this machine that are offered; the picker has the rest."""


def with_served(offers: Sequence[ModelOffer], near: Iterable[KnownModel]) -> list[ModelOffer]:
    """The offers with the first models of servers on this machine added before the demo, which is last."""
    from core.llm.registry import ModelOffer

    served = [ModelOffer(model.name, model.provider, "served") for model in near if model.why == "served"]
    return [*offers[:-1], *served[:MAX_SERVED], *offers[-1:]]


class ChosenModel(NamedTuple):
    """The user's choice."""

    model: str
    base_url: str = ""


class Offer(Vertical):
    """One line to choose, and a note below it."""

    def __init__(self, number: int, label: str, note: str) -> None:
        super().__init__(classes="offer")
        self.number = number
        self._label, self._note = sanitize_line(label, 64), note

    def compose(self) -> ComposeResult:
        parts = ((f" {self.number} ", "bold $text-accent"), (f" {self._label}", "bold"))
        yield Static(Content.assemble(*parts))
        yield Static(Content.styled(self._note, "$text-muted"), classes="-note")


class StartScreen(GuardedScreen[ChosenModel | None]):
    """Offers the models that can be used here."""

    guards_bindings = True

    DEFAULT_CSS = """
    StartScreen {
        align: center middle; background: $background;
        & > VerticalScroll {
            width: 90%; max-width: 80; height: auto; max-height: 100%; padding: 1 2;
            background: $surface; border: round $panel;
        }
        .offer { height: auto; margin-top: 1; }
        .offer .-note { padding-left: 4; }
        .offer.-at { background: $primary-muted; }
        .offer:hover { background: $panel; }
        .endpoint { display: none; height: auto; margin-top: 1; }
        .endpoint.-asked { display: block; }
        .next { margin-top: 1; color: $text-muted; }
        .no-key { margin-top: 1; color: $text-warning; }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; margin-bottom: 1; }
    }
    StartScreen.-low > VerticalScroll { padding: 0 1; width: 100%; }
    StartScreen.-low .offer, StartScreen.-low .next { margin-top: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("ctrl+q,ctrl+c", "app.quit", "Quit"),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("enter", "choose", show=False),
    ]
    AUTO_FOCUS = ""  # nothing has the focus, so that digits move the highlight

    def __init__(
        self, workspace: str, offers: Sequence[ModelOffer], pick: Callable[[], Awaitable[str | None]] | None = None
    ) -> None:
        """`pick` lets the user choose from all models."""
        super().__init__()
        self._workspace = workspace
        self._offers = offers
        self._pick = pick
        self._at = 1
        self._prefix = ""
        """The provider of an endpoint whose URL the environment names."""

    @property
    def _endpoint(self) -> int:
        """The number of the choice that asks for an endpoint; the one of another model comes after it."""
        return len(self._offers) + 1

    @property
    def ignores_letters(self) -> bool:
        """Letters are only for the fields."""
        return not isinstance(self.focused, Input)

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(Content.assemble(("Handloom", "bold $text-accent"), f"   {_('Choose a model')}"))
            place = _("Workspace: {folder}").format(folder=sanitize_line(self._workspace, 64))
            yield Static(Content.styled(place, "$text-muted"))
            for number, (label, note) in enumerate(self._lines(), 1):
                yield Offer(number, label, note)
            with Vertical(classes="endpoint"):
                yield Static(Content(_("URL of the endpoint; Enter goes on")), classes="-url")
                yield Field(DEFAULT_URL, id="url", classes="-url")
                yield Static(Content(_("Model, as the endpoint names it; Enter starts the conversation")))
                yield Field(id="model", placeholder="qwen3-coder")
            if all(offer.name == "demo" for offer in self._offers):
                yield Static(Content(NO_KEY), classes="no-key")
            yield Static(Content(NEXT), classes="next")

    def _lines(self) -> list[tuple[str, str]]:
        lines = []
        for offer in self._offers:
            if not offer.is_complete:
                note = _("Asks for the model's name.")
            elif offer.name == "demo":
                note = _("Real commands in a scratch folder. Needs no key and no network.")
            elif offer.why == "served":
                note = _("{model} runs on this machine, and needs no key.").format(model=sanitize_line(offer.name, 56))
            elif offer.why == "named":
                note = _("{model}, as config.toml names it.").format(model=sanitize_line(offer.name, 56))
            else:
                note = _("{model}, with the key found in the environment.").format(model=sanitize_line(offer.name, 56))
            lines.append((_(offer.label), note))
        servers = _("Ollama, vLLM, LM Studio, llama.cpp: asks for URL and model.")
        lines.append((_("An OpenAI-compatible endpoint"), servers))
        if self._pick is not None:
            lines.append((_("Another model"), _("All available models, with context window and prices.")))
        return lines

    def on_mount(self) -> None:
        """The first line is highlighted, so that Enter alone chooses it."""
        self._mark()

    def on_resize(self, event: events.Resize) -> None:
        """Low screens have no blank lines."""
        self.set_class(event.size.height < 26, "-low")

    def _mark(self) -> None:
        for offer in self.query(Offer):
            offer.set_class(offer.number == self._at, "-at")
            if offer.number == self._at:
                offer.scroll_visible(animate=False)

    def action_step(self, step: int) -> None:
        """Highlight the next line, or the previous one."""
        if not isinstance(self.focused, Input):
            self._at = (self._at - 1 + step) % len(self._lines()) + 1
            self._mark()

    def action_choose(self) -> None:
        """Choose the highlighted line."""
        self._choose(self._at)

    def on_key(self, event: events.Key) -> None:
        """A digit highlights a line, unless the user is typing."""
        if event.key in DIGITS and not isinstance(self.focused, Input):
            event.stop()
            if int(event.key) <= len(self._lines()):
                self._at = int(event.key)
                self._mark()

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        above = event.widget.ancestors_with_self if event.widget is not None else ()
        for offer in above:
            if isinstance(offer, Offer):
                self._choose(offer.number)

    def action_back(self) -> None:
        """Go back from the fields to the list, and from there to the workspace."""
        endpoint = self.query_one(".endpoint")
        if endpoint.has_class("-asked"):
            endpoint.remove_class("-asked")
            self.set_focus(None)
        else:
            self.dismiss(None)

    def _choose(self, number: int) -> None:
        if not 1 <= number <= len(self._lines()):
            return
        self._at = number
        self._mark()
        if number > self._endpoint:
            self.run_worker(self._pick_another())
            return
        offer = self._offers[number - 1] if number < self._endpoint else None
        if offer is not None and offer.is_complete:
            self.dismiss(ChosenModel(offer.name))
            return
        self._prefix = offer.name if offer is not None else ""
        self.query(".-url").set(display=offer is None)
        self.query_one(".endpoint").add_class("-asked")
        field = self.query_one("#model", Input)
        field.focus()
        field.scroll_visible(animate=False)

    async def _pick_another(self) -> None:
        assert self._pick is not None
        name = await self._pick()
        if name is not None:
            self.dismiss(ChosenModel(name))

    def on_input_submitted(self) -> None:
        """All fields are required; Enter goes to the empty one."""
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
