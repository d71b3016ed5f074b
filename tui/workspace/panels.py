"""What stands around a conversation: palette, help, jump, settings, models, plan, MCP, figures. A mixin of the app.

Every screen is imported when it is first opened: the first frame shows none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.widget import Widget

from tui.commands import keyed
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.frame import Frame
from tui.workspace.layout import PANES

if TYPE_CHECKING:
    from core.mcp.supervisor import Supervisor
    from core.settings.editable_settings import Setting
    from tui.dialogs.search_list import Row
    from tui.workspace.tab import Tab


LOOK_BACK = 5_000
"""Events before the loaded ones in which a plan is looked for: an older one says little about what is being done."""
PAGE = 500


class Panels(Frame):
    """The commands for what stands around, as methods of the app."""

    used_commands: tuple[str, ...] = ()
    """Commands that were chosen in the palette, the latest first; until Handloom ends."""

    def do_app_permissions(self) -> None:
        from core.security.permissions import PermissionFile
        from tui.permissions.screen import PermissionsScreen

        if self.manager is not None:
            session = self.living.session if self.living is not None else None
            self.push_screen(PermissionsScreen(PermissionFile(self.manager.store.home), session))

    # -- palette and help ----------------------------------------------------------------------------------------------

    def do_app_palette(self) -> None:
        from tui.palette.screen import PaletteScreen

        self.push_screen(PaletteScreen(self.used_commands, self._findable), self._carry_out)

    def _carry_out(self, chosen: str | None) -> None:
        kind, _colon, name = (chosen or "").partition(":")
        match kind:
            case "command":
                self.used_commands = (name, *(used for used in self.used_commands if used != name))
                self.attempt(self.do(name))
            case "conversation":
                self.attempt(self.show_conversation(name))
            case "setting":
                self.attempt(self._show_settings(name))

    async def _findable(self) -> Sequence[Row]:
        """Conversations and settings, as the palette lists them."""
        from tui.dialogs.search_list import Row

        if self.manager is None:
            return []
        rows = [Row("", _("Open a conversation"))]
        for info in await self.manager.list():
            title = sanitize_line(info.title or _("Untitled"), 60)
            when = info.updated_at.astimezone().strftime(_("%d %b %H:%M"))
            note = sanitize_line(f"{when} · {info.model} · {info.workspace}", 120)
            rows.append(Row(f"conversation:{info.id}", title, note, _("conversation")))
        rows.append(Row("", _("Change a setting")))
        for setting in await self.manager.read_settings():
            about = sanitize_line(_(setting.help), 200)
            rows.append(Row(f"setting:{setting.name}", setting.name, about, _("setting")))
        return rows

    def do_app_help(self) -> None:
        from tui.help.screen import HelpScreen

        focused = self.workspace.focused
        about = next((w.HELP for w in (focused.ancestors_with_self if focused else ()) if getattr(w, "HELP", "")), "")
        self.push_screen(HelpScreen(self.workspace.keys_scope, about or ""), self.left_help)

    do_list_help = do_app_help
    do_replay_help = do_app_help

    # -- jump mode -----------------------------------------------------------------------------------------------------

    def do_app_jump(self) -> None:
        from tui.jump.screen import JumpScreen

        places = self._places()

        def chosen(number: int | None) -> None:
            if number is not None:
                places[number][1]()

        self.push_screen(JumpScreen([offset for offset, go in places]), chosen)

    def _places(self) -> list[tuple[Any, Callable[[], object]]]:
        """Where one can go on the screen, and how: whatever takes the focus, and every tab."""
        from textual.geometry import Offset

        workspace = self.workspace
        places: list[tuple[Any, Callable[[], object]]] = []
        for x, target in workspace.tabs.places():
            kind, _colon, name = target.partition(":")
            if kind == "pane":
                places.append((Offset(x, 0), partial(workspace.look_at, name)))
            elif kind == "tab":
                places.append((Offset(x, 0), partial(self.show_tab, self.open_tabs[int(name)])))
        for widget in workspace.focus_chain:
            region = widget.region.intersection(workspace.region)
            if region:
                places.append((region.offset, self._goer(widget)))
        return places

    def _goer(self, widget: Widget) -> Callable[[], object]:
        if widget.id in PANES:
            return partial(self.workspace.look_at, widget.id)
        return widget.focus

    # -- settings and models -------------------------------------------------------------------------------------------

    def do_app_settings(self) -> None:
        self.attempt(self._show_settings())

    async def _show_settings(self, at: str = "") -> None:
        if self.manager is None:
            self.flash(_("Handloom is still starting."))
            return
        from core.errors import ConfigurationError
        from core.settings.editable_settings import checked, empty_is_default, sections
        from tui.settings.screen import SettingsScreen, Ways
        from tui.shortcuts import settings

        manager = self.manager

        async def change(name: str, value: str | bool) -> Sequence[Setting]:
            listed = await manager.change_setting(name, value)
            self.setting_changed(name)
            return [*listed, *settings.rows()]

        async def reset(name: str) -> Sequence[Setting]:
            listed = await manager.reset_setting(name)
            self.setting_changed(name)
            return [*listed, *settings.rows()]

        def check(name: str, value: str) -> str:
            try:
                if value or not empty_is_default(name):
                    checked(name, value)
            except ConfigurationError as error:
                return str(error)
            return ""

        listed = [*await manager.read_settings(), *settings.rows()]
        about = sections() | {settings.SECTION: settings.ABOUT}
        await self.push_screen(SettingsScreen(listed, about, Ways(change, reset, check), at), self.left_help)

    def setting_changed(self, name: str) -> None:
        """A setting was written down; what the screen itself is set by is taken over here."""

    def choose_model(self, chosen: Callable[[str], None]) -> None:
        """Let the user choose a model; nothing happens where they go back."""

        async def choose() -> None:
            if (name := await self.pick_model()) is not None:
                chosen(name)

        if self.manager is not None:
            self.attempt(choose())

    async def pick_model(self) -> str | None:
        """The name of a model that the user chooses from all that there are; None where they go back."""
        from tui.models.screen import ModelPicker

        assert self.manager is not None
        recent = [info.model for info in await self.manager.list()]
        current = self.current.model_name if self.current is not None else ""
        manager = self.manager
        picker = ModelPicker(manager.offers(), recent, manager.known_models, current, manager.near_models)
        return await self.push_screen_wait(picker)

    # -- of one conversation -------------------------------------------------------------------------------------------

    def do_tasks_toggle(self) -> None:
        tab = self.current
        if tab is None:
            self.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
            return
        tab.plan.shown = not tab.plan.shown
        self.workspace.arrange_panes()
        self.wake(tab)
        self.have_plan(tab)

    def have_plan(self, tab: Tab) -> None:
        """Look for the plan of a tab that shows one and knows none that stands."""
        if tab.plan.shown and not tab.plan.is_known:
            self.attempt(self._look_for_plan(tab))

    async def _look_for_plan(self, tab: Tab) -> None:
        """Look for a plan before the events that are loaded; the newest one that is found is shown."""
        before, looked = tab.oldest, 0
        while before and looked < LOOK_BACK and not tab.plan.is_known:
            page = await tab.log.page(before=before, limit=PAGE)
            tab.plan.prepend(page)
            before, looked = page[0].id if page else None, looked + len(page)
        self.wake(tab)

    def do_conv_mcp(self) -> None:
        if self.current is not None:
            self.attempt(self._show_mcp(self.current))

    async def _show_mcp(self, tab: Tab) -> None:
        from tui.mcp.called_tools import mcp_text
        from tui.mcp.screen import MCPScreen

        assert self.manager is not None
        supervisor = self.manager.mcp
        if tab is self.living:
            await self.manager.read_settings()
            await supervisor.open(tab.folder)
        problems = [sanitize(text) for text in supervisor.problems.get(tab.folder, ())]
        tools = list(tab.mcp_tools.tools.values())
        more = mcp_text(problems, tools, is_empty=not supervisor.at(tab.folder))
        screen = MCPScreen(supervisor, tab.folder, Content.assemble(*more))
        if (key := await self.push_screen_wait(screen)) is not None:
            await self._take_prompt(supervisor, key)

    async def _take_prompt(self, supervisor: Supervisor, key: str) -> None:
        """Have the user choose a prompt of a server and say what it needs; its text goes into the prompt, unsent."""
        from core.mcp.mcp_host_client import ServerError
        from tui.dialogs.dialog import Choice, ChoiceScreen
        from tui.dialogs.line_input import LineScreen

        try:
            prompts = {str(prompt["name"]): prompt for prompt in await supervisor.prompts(key)}
            choices = [Choice(name, sanitize_line(name, 60), sanitize_line(prompt["about"], 200))
                       for name, prompt in prompts.items()]  # fmt: skip
            chosen = await self.push_screen_wait(ChoiceScreen(_("Prompts of a server"), choices))
            if chosen is None:
                return
            said: dict[str, str] = {}
            for argument in prompts[chosen]["arguments"]:
                title, hint = sanitize_line(argument["name"], 60), sanitize_line(argument["about"], 60)
                text = await self.push_screen_wait(LineScreen(title, hint))
                if text is None:
                    return
                if text or argument["required"]:
                    said[argument["name"]] = text
            self.workspace.prompt.put(sanitize(await supervisor.prompt(key, chosen, said)))
        except ServerError as error:
            self.flash(sanitize_line(str(error), 300))

    def do_conv_statistics(self) -> None:
        if self.current is not None:
            self.attempt(self._show_statistics(self.current))

    async def _show_statistics(self, tab: Tab) -> None:
        from tui.dialogs.dialog import TextScreen

        reports = await asyncio.to_thread(import_module, "tui.statistics.cli")
        assert self.manager is not None
        text = await reports.report(self.manager.store, tab.id)
        await self.push_screen(TextScreen(_("Statistics"), Content(text)))
