"""The start screen: which model answers, if none is configured. Enter or a click chooses.

It lists the models that can be used now, the providers whose key can be entered, other endpoints and models, and the
demo. Every step says what comes next, because the user has read nothing yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

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
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.llm.model_catalogue import KnownModel
    from core.llm.registry import ModelOffer
    from core.secrets.provider_keys import KeyWanted

T = TypeVar("T")
DEFAULT_URL = "http://localhost:11434/v1"
NEXT = _("Move with ↑ ↓ or a number. Enter chooses. Esc goes to the workspace without a model. ctrl+q quits.")


ROWS_OF_ENTRY, ROWS_AROUND = 3, 10
FIRST_PROVIDERS = frozenset({"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"})
"""The providers that are listed without a key, by its variable; the list of all models has the rest."""
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


class Steps(NamedTuple):
    """What the screen cannot do itself. Each raises HandloomError."""

    pick: Callable[[], Awaitable[str | None]]
    """Lets the user choose from all models."""
    ask_key: Callable[[KeyWanted], Awaitable[bool]]
    """Asks for a key; returns whether it was stored."""
    add_endpoint: Callable[[str, str, str], Awaitable[str]]
    """Takes URL, model and key of an endpoint, and returns the name of the model."""
    check_endpoint: Callable[[str, str], Awaitable[None]]
    """Calls a model of an endpoint without a key."""
    add_key: Callable[[KeyWanted, str], Awaitable[str]]
    """Checks a key with a model, and stores it."""


class Entry(NamedTuple):
    """One line to choose, and what follows."""

    label: str
    note: str
    choose: Callable[[], object]


class Offer(Vertical):
    """One line to choose and a note below it, as they are drawn."""

    def __init__(self, number: int, entry: Entry) -> None:
        super().__init__(classes="offer")
        self.number = number
        self._label, self._note = sanitize_line(entry.label, 64), entry.note

    def compose(self) -> ComposeResult:
        yield Static(self._line(""), classes="-line")
        yield Static(Content.styled(self._note, "$text-muted"), classes="-note")

    def mark(self, is_at: bool) -> None:
        """Show whether the highlight is here."""
        self.set_class(is_at, "-at")
        self.query_one(".-line", Static).update(self._line("❯" if is_at else ""))

    def _line(self, mark: str) -> Content:
        return Content.assemble((f"{mark:1} {self.number} ", "bold $text-accent"), (f" {self._label}", "bold"))


class EndpointField(Field):
    """A field of an endpoint. Enter goes on at once, so that what is typed right after it is in the next field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", show=False, priority=True),  # without priority, the next letters would overtake it
    ]

    async def action_submit(self) -> None:
        """Go to the next field, or use the endpoint."""
        screen = self.screen
        assert isinstance(screen, StartScreen)
        screen.go_on(self)


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
        .offer .-note { padding-left: 5; }
        .offer.-at { background: $primary-muted; }
        .offer:hover { background: $panel; }
        .endpoint { display: none; height: auto; margin-top: 1; }
        .endpoint.-asked { display: block; }
        .next { margin-top: 1; color: $text-muted; }
        .state { margin-top: 1; color: $text-warning; height: auto; }
        .state.-empty { display: none; }
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
        self, workspace: str, offers: Sequence[ModelOffer], providers: Sequence[KeyWanted], steps: Steps
    ) -> None:
        """`providers` are those whose key can be entered."""
        super().__init__()
        self._workspace, self._steps = workspace, steps
        self._entries = [*self._of_offers(offers, is_demo=False), *self._of_providers(providers)]
        self._entries += [*self._of_others(), *self._of_offers(offers, is_demo=True)]
        self._at = 1
        self._providers = providers
        self._prefix = ""
        """The provider of an endpoint whose URL the environment names."""
        self._wanted: KeyWanted | None = None
        """The key of that provider, if it has none yet."""
        self._checked: ChosenModel | None = None
        """The endpoint without a key that was asked last."""
        self._unanswered: ChosenModel | None = None
        """The same, if it did not answer."""

    @property
    def ignores_letters(self) -> bool:
        """Letters are only for the fields."""
        return not isinstance(self.focused, Input)

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(Content.assemble(("Handloom", "bold $text-accent"), f"   {_('Choose a model')}"))
            place = _("Workspace: {folder}").format(folder=sanitize_line(self._workspace, 60))
            yield Static(Content.styled(place, "$text-muted"))
            for number, entry in enumerate(self._entries, 1):
                yield Offer(number, entry)
            with Vertical(classes="endpoint"):
                yield Static(Content(_("URL of the endpoint; Enter goes on")), classes="-url")
                yield EndpointField(DEFAULT_URL, id="url", classes="-url")
                yield Static(Content(_("Model, as the endpoint names it; Enter goes on")))
                yield EndpointField(id="model", placeholder="qwen3-coder")
                yield Static(Content(_("API key, or nothing if the endpoint needs none; Enter starts")), classes="-key")
                yield EndpointField(id="key", classes="-key", password=True)
            yield Static(classes="state -empty")
            yield Static(Content(NEXT), classes="next")

    # -- the lines -----------------------------------------------------------------------------------------------------

    def _of_offers(self, offers: Sequence[ModelOffer], *, is_demo: bool) -> list[Entry]:
        return [self._of_offer(offer) for offer in offers if (offer.name == "demo") is is_demo]

    def _of_offer(self, offer: ModelOffer) -> Entry:
        if not offer.is_complete:
            return Entry(_(offer.label), _("Asks for the model's name."), lambda: self._ask_endpoint(offer.name))
        if offer.name == "demo":
            note = _("Real commands in a scratch folder. Needs no key and no network.")
        elif offer.why == "served":
            note = _("{model} runs on this machine, and needs no key.")
        elif offer.why == "named":
            note = _("{model}, as config.toml names it.")
        else:
            note = _("{model}, with the key that was found.")
        note = note.format(model=sanitize_line(offer.name, 56))
        return Entry(_(offer.label), note, lambda: self.dismiss(ChosenModel(offer.name)))

    def _of_providers(self, providers: Sequence[KeyWanted]) -> list[Entry]:
        note = _("{model}; asks for your API key.")
        return [
            Entry(wanted.label, note.format(model=wanted.model), partial(self._enter_key, wanted))
            for wanted in providers
            if wanted.variable in FIRST_PROVIDERS
        ]

    def _of_others(self) -> list[Entry]:
        servers = _("Ollama, vLLM, LM Studio, llama.cpp: asks for URL and model.")
        all_models = _("All available models, with context window and prices.")
        return [
            Entry(_("An OpenAI-compatible endpoint"), servers, lambda: self._ask_endpoint("")),
            Entry(_("Another provider or model"), all_models, self._pick_another),
        ]

    def on_mount(self) -> None:
        """The first line is highlighted, so that Enter alone chooses it."""
        self._mark()

    def on_resize(self, event: events.Resize) -> None:
        """Low screens have no blank lines."""
        self.set_class(event.size.height < ROWS_OF_ENTRY * len(self._entries) + ROWS_AROUND, "-low")

    def _mark(self) -> None:
        for offer in self.query(Offer):
            offer.mark(offer.number == self._at)
            if offer.number == self._at:
                offer.scroll_visible(animate=False)

    def action_step(self, step: int) -> None:
        """Highlight the next line, or the previous one."""
        if not isinstance(self.focused, Input):
            self._at = (self._at - 1 + step) % len(self._entries) + 1
            self._mark()

    def action_choose(self) -> None:
        """Choose the highlighted line."""
        self._choose(self._at)

    def on_key(self, event: events.Key) -> None:
        """A digit highlights a line, unless the user is typing."""
        if event.key in DIGITS and not isinstance(self.focused, Input):
            event.stop()
            if int(event.key) <= len(self._entries):
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
        if not 1 <= number <= len(self._entries):
            return
        self._at = number
        self._mark()
        self._show_state("")
        self._entries[number - 1].choose()

    def _ask_endpoint(self, prefix: str) -> None:
        """Ask for URL, model and key; of a provider whose URL is known, for what is unknown."""
        self._prefix = prefix
        self._wanted = next((one for one in self._providers if prefix and one.model.startswith(prefix)), None)
        self.query(".-url").set(display=not prefix)
        self.query(".-key").set(display=not prefix or self._wanted is not None)
        self.query_one(".endpoint").add_class("-asked")
        field = self.query_one("#model" if prefix else "#url", Input)
        self.set_focus(field)  # at once: the next key is text
        self.call_after_refresh(self.query_one(".endpoint").scroll_visible, animate=False)

    def _show_state(self, text: str) -> None:
        state = self.query_one(".state", Static)
        state.update(Content(sanitize(text)))
        state.set_class(not text, "-empty")
        if text:
            self.call_after_refresh(state.scroll_visible, animate=False)

    def _enter_key(self, wanted: KeyWanted) -> None:
        self.run_worker(self._use_key(wanted), exclusive=True)

    async def _use_key(self, wanted: KeyWanted) -> None:
        if await self._reported(self._steps.ask_key(wanted)):
            self.dismiss(ChosenModel(wanted.model))

    def _pick_another(self) -> None:
        self.run_worker(self._use_picked(), exclusive=True)

    async def _use_picked(self) -> None:
        name = await self._reported(self._steps.pick())
        if name is not None:
            self.dismiss(ChosenModel(name))

    async def _reported(self, work: Awaitable[T]) -> T | None:
        """The result, or None after an error, which is shown."""
        from core.errors import HandloomError

        try:
            return await work
        except HandloomError as error:
            self._show_state(str(error))
            return None

    def go_on(self, field: EndpointField) -> None:
        """Go from a field to the next one, or use the endpoint; only the key may be empty."""
        fields = [one for one in self.query(EndpointField) if one.display]
        if field.id != "key" and not field.value.strip():
            return
        if field is not fields[-1]:
            self.set_focus(fields[fields.index(field) + 1])
            return
        if (missing := next((one for one in fields if one.id != "key" and not one.value.strip()), None)) is not None:
            self.set_focus(missing)
            return
        url, model, key = (self.query_one(f"#{name}", Input).value.strip() for name in ("url", "model", "key"))
        if self._prefix:
            name = self._prefix + model.removeprefix(self._prefix)
            if key and self._wanted is not None:
                self.run_worker(self._use_named(self._wanted._replace(model=name), key), exclusive=True)
            else:
                self.dismiss(ChosenModel(name))
        elif key:
            self.run_worker(self._use_endpoint(url, model, key), exclusive=True)
        else:
            self._use_without_key(ChosenModel("openai/" + model.removeprefix("openai/"), url))

    def _use_without_key(self, chosen: ChosenModel) -> None:
        """Use an endpoint once it has answered, or if the user insists."""
        if chosen == self._unanswered:
            self.dismiss(chosen)
        elif chosen != self._checked:
            self._checked = chosen
            self.run_worker(self._check(chosen), exclusive=True)

    async def _check(self, chosen: ChosenModel) -> None:
        from core.errors import HandloomError

        self._show_state(_("Asking the endpoint for a short answer …"))
        try:
            await self._steps.check_endpoint(chosen.base_url, chosen.model)
        except HandloomError as error:
            self._unanswered = chosen
            self._show_state(f"{error}\n" + _("Enter uses it all the same."))
        else:
            self.dismiss(chosen)

    async def _use_named(self, wanted: KeyWanted, key: str) -> None:
        self._show_state(_("Checking the key with one short call …"))
        if await self._reported(self._steps.add_key(wanted, key)) is not None:
            self.dismiss(ChosenModel(wanted.model))

    async def _use_endpoint(self, url: str, model: str, key: str) -> None:
        self._show_state(_("Checking the key with one short call …"))
        name = await self._reported(self._steps.add_endpoint(url, model, key))
        if name is not None:
            self.dismiss(ChosenModel(name))
