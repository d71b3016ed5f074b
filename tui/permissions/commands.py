"""The command that shows the permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.shortcuts.command import Command, Group

if TYPE_CHECKING:
    from tui.app import HandloomApp


def show_permissions(app: HandloomApp) -> None:
    """Show what is always allowed or denied, and let the user revoke it."""
    from core.security.permissions import PermissionFile
    from tui.permissions.screen import PermissionsScreen

    if app.manager is not None:
        session = app.tabs.conversation.session if app.tabs.conversation is not None else None
        app.push_screen(PermissionsScreen(PermissionFile(app.manager.store.home), session))


ROWS = (
    Command("app.permissions", (), "Permissions", "Show what is always allowed or denied, and revoke it.",
            Group.WORKSPACE, leader="Y", slash="permissions", run=show_permissions,
            also="add dir directory allow deny approve rules auto approve"),
)  # fmt: skip
