"""The settings on the screen: listed, changed, reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.shortcuts.commands import after_help

if TYPE_CHECKING:
    from core.settings.editable_settings import Setting
    from tui.app import HandloomApp


async def show_settings(app: HandloomApp, at: str = "") -> None:
    """Open the settings, at one of them if it is named."""
    if app.manager is None:
        app.flash(_("Handloom is still starting."))
        return
    from core.errors import ConfigurationError
    from core.settings.editable_settings import checked, empty_is_default, sections
    from tui.settings.screen import Operations, SettingsScreen
    from tui.shortcuts import own_keys

    manager = app.manager

    async def change(name: str, value: str | bool) -> Sequence[Setting]:
        return [*await manager.change_setting(name, value), *own_keys.setting_rows()]

    async def reset(name: str) -> Sequence[Setting]:
        return [*await manager.reset_setting(name), *own_keys.setting_rows()]

    def check(name: str, value: str) -> str:
        try:
            if value or not empty_is_default(name):
                checked(name, value)
        except ConfigurationError as error:
            return str(error)
        return ""

    listed = [*await manager.read_settings(), *own_keys.setting_rows()]
    about = sections() | {own_keys.SECTION: own_keys.ABOUT}
    screen = SettingsScreen(listed, about, Operations(change, reset, check), at)
    app.push_screen(screen, lambda answer: after_help(app, answer))


ROWS = (
    Command("app.settings", (), "Settings", "See and change every setting. Changes are saved in config.toml.",
            Group.WORKSPACE, leader=",", slash="settings", run=lambda app: app.attempt(show_settings(app))),
)  # fmt: skip
