"""The screen of permissions: what is always allowed or denied in this conversation, this project and everywhere.

`d` revokes one. The screen follows the file, which other processes write too. Rules of policies are listed below.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from core.errors import ConfigurationError, HandloomError
from core.security.permissions import Permission, PermissionFile, Scope
from core.security.policy import POLICY, PROJECT_POLICY, read_policy
from tui.dialogs.choice_dialog import GuardedScreen
from tui.dialogs.dialog import SureScreen
from tui.file_watcher import Watch, watch
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.footer import UNKNOWN

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession

VERDICTS = {"allow": _("allowed"), "deny": _("denied")}
SIGNS = {"allow": "✓", "deny": "✕"}
"""Signs instead of colours, because the highlighted line has its own."""
SCOPES = {
    "conversation": _("this conversation"),
    "project": _("project"),
    "everywhere": _("everywhere"),
}


SCOPE_CELLS = max(cell_len(words) for words in SCOPES.values())
DAY = len("2026-11-22")


def line_of(permission: Permission) -> Content:
    """One permission in one line."""
    return Content.assemble(
        f"{SIGNS[permission.verdict]} {set_cell_size(VERDICTS[permission.verdict], 7)}  ",
        set_cell_size(SCOPES[permission.scope], SCOPE_CELLS) + "  ",
        f"{sanitize_line(permission.at[:DAY], DAY) or UNKNOWN:<{DAY}}  ",
        (sanitize_line(str(permission.pattern), 200), "bold"),
    )


def about(permission: Permission) -> str:
    """The details of a permission."""
    lines = [str(permission.pattern)]
    if permission.folder:
        lines.append(_("Project: {folder}").format(folder=permission.folder))
    given = _("Added at {time} in conversation {conversation}.")
    lines.append(given.format(time=permission.at or "?", conversation=permission.conversation or "?"))
    return sanitize("\n".join(lines))


class PermissionsScreen(GuardedScreen[None]):
    """The stored permissions and denials."""

    guards_bindings = True

    DEFAULT_CSS = """
    PermissionsScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: 90%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        OptionList, OptionList:focus { height: auto; max-height: 50%; border: none; background: $surface; padding: 0; }
        OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
        Static { height: auto; }
        #permission-about { margin-top: 1; height: 1fr; }
    }
    """
    BINDINGS = [
        Binding("escape,q", "leave", "Leave"),
        Binding("d,delete", "revoke", show=False),
        Binding("pagedown,space", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]

    def __init__(self, file: PermissionFile, session: AgentSession | None) -> None:
        """`session` is the conversation that is shown, if any."""
        super().__init__()
        self._file, self._session = file, session
        self._shown: Sequence[Permission] = ()
        self._rules = self._problem = self._broken = ""
        self._watch: Watch | None = None

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Permissions")
            yield OptionList(markup=False)
            with VerticalScroll(id="permission-about", can_focus=False):
                yield Static(id="permission-text")

    def on_mount(self) -> None:
        """Show the permissions, and follow the file."""
        self._watch = watch(self._file.path.parent, self._follow)
        self._load()
        self.query_one(OptionList).focus()

    def on_unmount(self) -> None:
        """Stop following."""
        if self._watch is not None:
            self._watch.close()

    def _follow(self) -> None:
        self._load()

    @work(exclusive=True, group="permissions")
    async def _load(self) -> None:
        own = list(self._session.guard.conversation_permissions) if self._session is not None else []
        self._problem = ""
        try:
            kept = await asyncio.to_thread(self._file.read)
        except ConfigurationError as error:
            kept, self._problem = (), str(error)
        self._shown = [*own, *kept]
        self._rules, self._broken = await asyncio.to_thread(self._policy)
        self._show()

    def _policy(self) -> tuple[str, str]:
        """The rules of the policies, and their problems. Blocks."""
        files = [(self._file.path.parent / POLICY, POLICY, False)]
        if self._session is not None:
            files.append((self._session.guard.project_file, str(PROJECT_POLICY), True))
        text: list[str] = []
        wrong: list[str] = []
        for file, name, tightens in files:
            policy = read_policy(file, name=name, tightens=tightens)
            text += [str(rule) for rule in policy.rules]
            wrong += filter(None, (policy.broken, policy.ignored))
        where = _("You can write your own rules in {file}.").format(file=files[0][0])
        return "\n".join([*text, where]), "\n".join(wrong)

    def _show(self) -> None:
        lines = self.query_one(OptionList)
        at = lines.highlighted or 0
        lines.clear_options()
        lines.add_options([Option(line_of(permission)) for permission in self._shown])
        lines.display = bool(self._shown)
        if self._shown:
            lines.highlighted = min(at, len(self._shown) - 1)
        self._show_details()
        self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        """Show the keys that have an effect now."""
        keys = [_("d revokes it")] * bool(self._shown)
        keys += [_("PgDn scroll")] * (self.query_one(VerticalScroll).max_scroll_y > 0)
        self.query_one(Vertical).border_subtitle = " · ".join([*keys, _("Esc closes")])

    def on_resize(self) -> None:
        """Update the keys."""
        self.call_after_refresh(self._show_keys)

    def on_option_list_option_highlighted(self) -> None:
        """Show the details of the highlighted one."""
        self._show_details()

    @property
    def _chosen(self) -> Permission | None:
        index = self.query_one(OptionList).highlighted
        return self._shown[index] if index is not None and index < len(self._shown) else None

    def _show_details(self) -> None:
        chosen = self._chosen
        parts: list[str | tuple[str, str]] = []
        if problem := "\n".join(filter(None, (self._problem, self._broken))):
            parts.append((f"{sanitize(problem)}\n\n", "$text-error"))
        if chosen is not None:
            parts.append(f"{about(chosen)}\n\n")
        elif not self._problem:
            parts.append(
                _("Nothing is always allowed or denied yet. You can choose that when an action needs approval.")
                + "\n\n"
            )
        parts.append((sanitize(self._rules), "$text-muted"))
        self.query_one("#permission-text", Static).update(Content.assemble(*parts))

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_revoke(self) -> None:
        """Revoke the highlighted one after a confirmation."""
        if (chosen := self._chosen) is not None:
            self._revoke(chosen)

    @work
    async def _revoke(self, permission: Permission) -> None:
        verdict, scope = VERDICTS[permission.verdict], SCOPES[permission.scope]
        asked = _("Revoke this permission ({verdict}, {scope})?").format(verdict=verdict, scope=scope)
        pattern = sanitize_line(str(permission.pattern), 400)
        if not await self.app.push_screen_wait(SureScreen(f"{asked}\n\n{pattern}", _("revoke it"))):
            return
        try:
            if permission.scope is Scope.CONVERSATION and self._session is not None:
                await self._session.approval.revoke(permission)
            else:
                await asyncio.to_thread(self._file.revoke, [permission.id])
        except HandloomError as error:
            self._problem = str(error)
            self._show_details()
            return
        self._load()

    def action_page(self, step: int) -> None:
        """Scroll the details."""
        body = self.query_one("#permission-about", VerticalScroll)
        (body.scroll_page_down if step > 0 else body.scroll_page_up)(animate=False)

    def action_leave(self) -> None:
        """Go back to the workspace."""
        self.dismiss()
