"""The model of a conversation: chosen from all that can be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


def change_model(app: Context) -> None:
    """Let the user choose another model for the conversation."""
    if (tab := app.tabs.conversation) is not None:
        choose_model(app, lambda name: app.attempt(_set_model(app, tab, name)))


async def _set_model(app: Context, tab: ConversationTab, name: str) -> None:
    await tab.session.active_model.switch(name)
    app.flash(_("Model changed to {name}.").format(name=name))
    app.wake(tab)


def choose_model(app: Context, chosen: Callable[[str], None]) -> None:
    """Let the user choose a model; nothing happens if they go back."""

    async def choose() -> None:
        if (name := await pick_model(app)) is not None:
            chosen(name)

    if app.manager is not None:
        app.attempt(choose())


async def pick_model(app: Context) -> str | None:
    """The name of a model that the user chooses; None if they go back."""
    from tui.models.screen import ModelPicker

    assert app.manager is not None
    manager, tab = app.manager, app.tabs.current
    recent = [info.model for info in await manager.list()]
    current = tab.model_name if tab is not None else ""
    picker = ModelPicker(manager.offers(), recent, manager.known_models, current, manager.local_models)
    return await app.push_screen_wait(picker)


ROWS = (
    Command("conv.model", (), "Model", "Choose the model of this conversation.", Group.CONVERSATIONS, leader="m",
            slash="model", acts=True, run=change_model),
)  # fmt: skip
