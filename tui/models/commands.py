"""Choosing the model of a conversation by context window, price and support of pictures.

Usable models are listed immediately, those of servers on this machine a moment later; the tables of all models come
from the model host, which takes seconds the first time. Recently used models come first, then the providers whose key
is in the environment. Unknown figures are dashes. Any typed name can be chosen too, because no table is complete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import set_cell_size

from tui.dialogs.search_list import Finder, Row, elided, ranked
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.footer import tokens

if TYPE_CHECKING:
    from core.llm.model_catalogue import KnownModel
    from core.llm.registry import ModelOffer
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab

RECENT = 5
COMPACT_BELOW = 100
"""Below this many columns the figures are shortened."""
UNKNOWN = "—"
NAME_CELLS = 72


class ModelPicker(Finder):
    """Choose a model; the result is its name."""

    TITLE_TEXT = _("Model")
    PLACEHOLDER = _("Type to narrow down, or PROVIDER/NAME · prices per million tokens")

    def __init__(
        self,
        offers: Sequence[ModelOffer],
        recent: Sequence[str],
        load: Callable[[], Awaitable[Sequence[KnownModel]]],
        current: str = "",
        look: Callable[[], Awaitable[Sequence[KnownModel]]] | None = None,
    ) -> None:
        """`load` returns the tables, `look` the user's own models and those of this machine."""
        super().__init__()
        self._recent = list(dict.fromkeys(name for name in recent if name))[:RECENT]
        self._load, self._look, self._current = load, look, current
        self._usable = [
            Row(offer.name, _name(offer.name), _name(_(offer.label))) for offer in offers if offer.is_complete
        ]
        self._known: dict[str, Row] = {}
        self._compact: dict[str, str] = {}
        """The figures, shortened on narrow screens."""
        self._groups: list[tuple[Row, list[Row]]] = []
        self._state = _("Loading the list of models …")

    def on_mount(self) -> None:
        """Usable models are listed; the tables are being loaded."""
        super().on_mount()
        self.run_worker(self._fill())

    async def _fill(self) -> None:
        near = await self._look() if self._look is not None else ()
        self._take(near)
        self.show()
        models = await self._load()
        self._take([*near, *models])
        missing = _("The list of models could not be loaded. Type the name of the one you want.")
        self._state = "" if models else missing
        self.show()

    def _take(self, models: Sequence[KnownModel]) -> None:
        self._known = {model.name: _row(model) for model in models}
        self._compact = {model.name: compact_figures(model) for model in models}
        self._groups = _grouped(models, self._known)

    def rows(self, query: str) -> Sequence[Row]:
        """Recent models, usable ones, and the rest by provider; a typed name that no row has can be chosen too."""
        rows = self._rows(query)
        if self.size.width >= COMPACT_BELOW:
            return rows
        return [row._replace(right=self._compact.get(row.key, row.right)) for row in rows]

    def _rows(self, query: str) -> Sequence[Row]:
        recent = [self._row(name) for name in self._recent]
        usable = [self._row(row.key) for row in self._usable if row.key not in self._recent]
        above = {row.key for row in (*recent, *usable)}
        groups = [(Row("", _("Recent")), recent), (Row("", _("Ready to use")), usable)]
        groups += [(heading, [row for row in models if row.key not in above]) for heading, models in self._groups]
        rows = list[Row]()
        for heading, members in groups:
            found = ranked(query, members) if query else members
            rows += [heading, *found] if found else []
        if query and all(row.key != query for row in rows):
            typed = Row(query, query, _("as you typed it"))
            return [*rows, typed] if rows and "/" not in query else [typed, *rows]
        return [*rows, Row("", self._state)] if self._state and not query else rows

    def _row(self, name: str) -> Row:
        row = self._known.get(name) or next((row for row in self._usable if row.key == name), None)
        row = row or Row(name, _name(name))
        return row._replace(note=_("answers here")) if name == self._current else row


def figures(model: KnownModel) -> str:
    """The figures of a model in columns: context window, dollars per million tokens in and out, pictures."""
    window = tokens(model.context_window) if model.context_window else UNKNOWN
    sees = {True: _("reads images"), False: _("text only"), None: UNKNOWN}[model.vision]
    prices = _("{prompt} in {answer} out")
    prices = prices.format(prompt=f"{_dollars(model.price_in):>8}", answer=f"{_dollars(model.price_out):>8}")
    return f"{window:>5}  {prices}  {set_cell_size(sees, 13)}"


def compact_figures(model: KnownModel) -> str:
    """The same in fewer cells: `200k $3.00/$15.00 pictures`, the last word only if it reads pictures."""
    window = tokens(model.context_window) if model.context_window else UNKNOWN
    pictures = f" {_('pictures')}" if model.vision else ""
    return f"{window} {_dollars(model.price_in)}/{_dollars(model.price_out)}{pictures}"


def _dollars(price: float | None) -> str:
    return UNKNOWN if price is None else f"${price:.2f}"


def _row(model: KnownModel) -> Row:
    return Row(model.name, _name(model.name), "", figures(model), _name(model.provider))


def _name(name: str) -> str:
    return elided(sanitize_line(name, 200), NAME_CELLS)


def _grouped(models: Iterable[KnownModel], rows: dict[str, Row]) -> list[tuple[Row, list[Row]]]:
    """The rows by provider under a heading that says whether it can be used, in the order of the models."""
    groups: dict[str, tuple[Row, list[Row]]] = {}
    for model in models:
        if model.has_key and model.why:
            named = _("named in config.toml")
            note = named if model.why == "named" else _("runs on this machine, needs no key")
        elif model.has_key:
            note = _("API key found in the environment")
        else:
            unknown = _("availability not known")
            note = _("needs {variable}").format(variable=model.needs) if model.needs else unknown
        heading = Row("", sanitize_line(model.provider, 40), note)
        groups.setdefault(model.provider, (heading, []))[1].append(rows[model.name])
    return list(groups.values())


def change_model(app: Context, name: str = "") -> None:
    """Use another model for the conversation; without one, for a new one. Without a name, the user chooses it."""
    if (tab := app.tabs.conversation) is not None:
        use = partial(_set_model, app, tab)
    elif app.tabs.current is None:
        use = partial(_start_with, app)
    else:
        return
    if name:
        app.attempt(_use_named(app, name, use))
    else:
        choose_model(app, lambda name: app.attempt(use(name)))


async def _use_named(app: Context, name: str, use: Callable[[str], Awaitable[None]]) -> None:
    from tui.models.key_screen import has_key

    if app.manager is not None and await has_key(app, app.manager, name):
        await use(name)


async def _start_with(app: Context, name: str) -> None:
    from tui.workspace.conversation_start import new_conversation

    assert app.manager is not None
    await app.manager.choose_model(name)
    await new_conversation(app, model=name)


async def _set_model(app: Context, tab: ConversationTab, name: str) -> None:
    await tab.session.active_model.switch(name)
    app.flash(_("Model changed to {name}.").format(name=name))
    app.wake(tab)


def show_keys(app: Context) -> None:
    """Let the user enter the key of a provider."""
    from tui.models.key_screen import change_keys

    if app.manager is not None:
        app.attempt(change_keys(app, app.manager))


def choose_model(app: Context, chosen: Callable[[str], None]) -> None:
    """Let the user choose a model; nothing happens if they go back."""

    async def choose() -> None:
        if (name := await pick_model(app)) is not None:
            chosen(name)

    if app.manager is not None:
        app.attempt(choose())


async def pick_model(app: Context) -> str | None:
    """The name of a model that the user chooses, after asking for a key that it lacks; None if they go back.

    Raises ConfigurationError.
    """
    from tui.models.key_screen import has_key

    assert app.manager is not None
    manager, tab = app.manager, app.tabs.current
    recent = [info.model for info in await manager.list()]
    current = tab.model_name if tab is not None else ""
    picker = ModelPicker(manager.offers(), recent, manager.known_models, current, manager.local_models)
    name = await app.push_screen_wait(picker)
    return name if name and await has_key(app, manager, name) else None


ROWS = (
    Command("conv.model", (), "Model", "Choose the model of this conversation.", Group.CONVERSATIONS, leader="m",
            slash="model", words="NAME", acts=True, run_with=change_model, also="switch change llm"),
    Command("app.api_keys", (), "API keys", "Enter the API key of a provider, or replace it.", Group.WORKSPACE,
            slash="login", run=show_keys,
            also="provider account credentials log in sign"),
)  # fmt: skip
