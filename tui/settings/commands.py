"""The command and the screen for settings: groups on the left, fields on the right, help below.

Each field shows its value and where that comes from. A change is checked while it is typed, with the message at the
field, and written into config.toml; a value that the environment or the command line sets is shown and kept. The screen
knows no file and no model: it is given rows and two ways to change them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.dialog import Field
from tui.dialogs.modal import Modal
from tui.dialogs.search_list import Clickable, Row, elided, line
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.shortcuts.commands import edit_keys
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.settings.editable_settings import Setting
    from tui.app import HandloomApp

    Listed = Sequence[Setting]

KEYS = _("Enter changes · ← → choices · Del default · / narrows down · Tab groups · Esc closes")
EDITING = _("Enter saves, Esc cancels.")
NAME_CELLS = 26
GROUPS_FROM = 78
"""From this many columns on the groups are shown beside the fields."""
TOP = _("general")
"""The name of the group for fields outside of sections."""


class Operations(NamedTuple):
    """Functions that change settings. The first two return all settings, and raise HandloomError."""

    change: Callable[[str, str | bool], Awaitable[Listed]]
    reset: Callable[[str], Awaitable[Listed]]
    check: Callable[[str, str], str]
    """The problem of a value as text for the user; empty if it is valid."""


class SettingsScreen(Modal["Setting"]):
    """Shows and changes every setting. The result is a row that is changed elsewhere, if the user chose one."""

    DEFAULT_CSS = """
    SettingsScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 96%; max-width: 130; height: 94%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; }
        #settings-find { margin-bottom: 1; }
        #settings-lists { height: 1fr; }
        Clickable { border: none; background: $surface; padding: 0; height: 1fr; }
        Clickable:focus { border: none; }
        #settings-groups { width: 18; margin-right: 2; }
        #settings-groups > .option-list--option-highlighted { background: $panel; }
        #settings-groups:focus > .option-list--option-highlighted { background: $primary-muted; }
        #settings-about { height: auto; max-height: 8; margin-top: 1; border-top: solid $panel; }
        #settings-value { display: none; }
        #settings-value.-edited { display: block; }
        #settings-message { height: auto; max-height: 3; color: $text-success; }
        #settings-message.-wrong { color: $text-error; }
    }
    SettingsScreen.-narrow #settings-groups { display: none; }
    SettingsScreen.-low > Vertical { width: 100%; height: 100%; }
    SettingsScreen.-low #settings-find { margin-bottom: 0; }
    SettingsScreen.-low #settings-about { max-height: 4; margin-top: 0; border-top: none; }
    SettingsScreen.-tiny #settings-about, SettingsScreen.-tiny #settings-find { display: none; }
    """
    HELP = _("↑ ↓ choose a field, Enter changes it, ← → go through its choices, Del takes it back to its default.")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("slash", "find", "Narrow down", priority=True),
        Binding("enter", "edit", "Change", priority=True),
        Binding("delete,backspace", "reset", "Default"),
        Binding("left", "step(-1)", show=False),
        Binding("right,space", "step(1)", show=False),
        Binding("j", "move('cursor_down')", show=False),
        Binding("k", "move('cursor_up')", show=False),
        Binding("down", "move_from_text('cursor_down')", show=False, priority=True),
        Binding("up", "move_from_text('cursor_up')", show=False, priority=True),
    ]
    AUTO_FOCUS = "#settings-fields"

    def __init__(
        self,
        settings: Listed,
        sections: Mapping[str, str],
        ways: Operations,
        at: str = "",
        elsewhere: Container[str] = (),
    ) -> None:
        """`sections` are their descriptions; `at` is the field to start with; those of `elsewhere` are the result."""
        super().__init__()
        self._elsewhere = elsewhere
        self._settings, self._sections = list(settings), sections
        self._ways = ways
        self._at = at
        self._told_of: Setting | None = None
        """The field of the message, which disappears when another field is highlighted."""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Settings")
            box.border_subtitle = KEYS
            yield Field(placeholder=_("/ filters"), id="settings-find")
            with Horizontal(id="settings-lists"):
                yield Clickable(id="settings-groups", markup=False)
                yield Clickable(id="settings-fields", markup=False)
            yield Static(id="settings-about")
            yield Field(id="settings-value")
            yield Static(id="settings-message")

    def on_mount(self) -> None:
        """Add the groups; the fields are added when the width is known."""
        groups = [Option(Content(name or TOP), id=f"group-{name}") for name in self._sections]
        self.query_one("#settings-groups", OptionList).add_options(groups)

    def on_resize(self, event: events.Resize) -> None:
        """Format the lines for the width; low screens hide optional parts."""
        self.set_class(event.size.width < GROUPS_FROM, "-narrow")
        self.set_class(event.size.height < 20, "-low")
        self.set_class(event.size.height < 10, "-tiny")
        self.call_after_refresh(self._list)

    # -- what is shown -------------------------------------------------------------------------------------------------

    @property
    def _fields(self) -> Clickable:
        return self.query_one("#settings-fields", Clickable)

    @property
    def _setting(self) -> Setting | None:
        """The field under the highlight."""
        option = self._fields.highlighted_option
        return next((setting for setting in self._settings if option and setting.name == option.id), None)

    def _list(self) -> None:
        """Show the fields that match, and keep the highlight where it was."""
        found, wanted = self._fields, self.query_one("#settings-find", Input).value.casefold().split()
        at = self._at or (found.highlighted_option.id if found.highlighted_option else "") or ""
        self._at = ""
        width = found.scrollable_content_region.width
        options, section = [], None
        for setting in self._settings:
            if not all(word in f"{setting.name} {_(setting.help)} {setting.text}".casefold() for word in wanted):
                continue
            if setting.section != section:
                section = setting.section
                heading = Row("", section or TOP, _(self._sections.get(section, "")))
                options.append(Option(line(heading, width), disabled=True))
            options.append(Option(self._line(setting, width), id=setting.name))
        if not options:
            options.append(Option(Content.styled(_("No setting matches."), "$text-muted"), disabled=True))
        found.clear_options()
        found.add_options(options)
        ids = [option.id for option in options]
        found.highlighted = ids.index(at) if at in ids else next((n for n, id in enumerate(ids) if id), None)
        self._describe()

    def _line(self, setting: Setting, width: int) -> Content:
        """`  max_iterations   500   environment`: the origin is shown only if the value is not the default."""
        origin = "" if setting.origin == "default" else _(setting.origin)
        name = set_cell_size(elided(setting.field, NAME_CELLS), min(NAME_CELLS, max(8, width // 2)))
        room = width - cell_len(name) - cell_len(origin) - 4
        value = elided(_shown(setting), max(4, room))
        style = "bold $text-accent" if origin else "" if setting.text else "$text-muted"
        return Content.assemble(
            f"  {name} ", (set_cell_size(value, max(4, room)), style), (f" {origin}", "$text-muted")
        )

    def _describe(self) -> None:
        """Describe the highlighted field: its meaning, its allowed values, and when a change takes effect."""
        setting = self._setting
        about = self.query_one("#settings-about", Static)
        if setting is None:
            about.update("")
            return
        parts = [(setting.name, "bold $text-accent"), (f"  {sanitize_line(_(setting.help), 400)}\n", "")]
        if setting.choices:
            for choice in setting.choices:
                parts.append((f" {choice} ", "reverse" if choice == setting.text else "$text-muted"))
            parts.append(("\n", ""))
        may = [f"{_(setting.kind)}{f', {_bounds(setting)}' if setting.bounds else ''}"]
        may.append(_("default {value}").format(value=_default(setting)))
        if setting.origin != "default":
            may.append(_("from {place}").format(place=_(setting.origin)))
        parts.append((f"{' · '.join(may)}\n", "$text-muted"))
        fixed, counts = _fixed(setting), _("A change takes effect {when}.").format(when=_(setting.effect))
        parts.append((fixed or counts, "$text-secondary" if fixed else "$text-muted"))
        about.update(Content.assemble(*parts))

    def _show_message(self, text: str, wrong: bool = False) -> None:
        self._told_of = self._setting
        message = self.query_one("#settings-message", Static)
        message.set_class(wrong, "-wrong")
        message.update(Content(sanitize(text)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that open a field act immediately, so that fast typing goes into it; in a text field they are text."""
        if action == "find":
            return not isinstance(self.focused, Input)
        if action == "edit":
            return self.focused is self._fields
        return super().check_action(action, parameters)

    # -- what the user does --------------------------------------------------------------------------------------------

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Go to the fields of a highlighted group, or describe a highlighted field."""
        if event.option_list.id == "settings-groups":
            self._go_to_group(str(event.option.id).removeprefix("group-"))
        else:
            self._describe()
            if self._told_of is not None and self._setting is not None and self._setting.name != self._told_of.name:
                self._show_message("")

    def _go_to_group(self, section: str) -> None:
        """Highlight the first field of a group."""
        ids = [option.id for option in self._fields.options]
        first = next((s.name for s in self._settings if s.section == section and s.name in ids), None)
        if first is not None:
            self._fields.highlighted = ids.index(first)
            self._fields.scroll_to_highlight(top=True)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a double click changes a field; on a group it goes to its fields."""
        if event.option_list.id == "settings-groups":
            self.set_focus(self._fields)
        else:
            self.action_edit()

    def action_edit(self) -> None:
        """Open the control that changes the field."""
        setting = self._setting
        if setting is not None and setting.section in self._elsewhere:
            self.dismiss(setting)
            return
        if setting is None or self._refuse(setting):
            return
        if setting.kind == "yes or no" or setting.choices:
            self.action_step(1)
            return
        field = self.query_one("#settings-value", Input)
        empty = _("empty: {value}").format(value=_default(setting))
        field.placeholder = "a, b, c" if setting.kind == "list" else empty
        field.value = setting.text
        field.add_class("-edited")
        self.set_focus(field)  # before the next key: Widget.focus comes later
        self._show_message(EDITING)

    def _refuse(self, setting: Setting) -> bool:
        """Whether a field cannot be changed here; then shows why."""
        why = _fixed(setting)
        if not why and setting.kind == "list" and any("," in str(part) for part in setting.value or ()):
            why = _("An item of this list contains a comma. Change the list in config.toml.")
        if why:
            self._show_message(why, wrong=True)
        return bool(why)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the fields, or check the typed value."""
        if event.input.id == "settings-find":
            self._list()
            return
        setting = self._setting
        if setting is not None and event.input.has_class("-edited"):
            wrong = self._ways.check(setting.name, event.value)
            self._show_message(wrong or EDITING, wrong=bool(wrong))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Save the typed value; in the search, go to the first match."""
        setting = self._setting
        if event.input.id == "settings-find":
            self.set_focus(self._fields)
        elif setting is not None and not self._ways.check(setting.name, event.value):
            self._write(setting, event.value)

    def action_step(self, step: int) -> None:
        """The next or previous of a field's choices."""
        setting = self._setting
        if setting is None or not self._fields.has_focus or not (setting.choices or setting.kind == "yes or no"):
            return
        if self._refuse(setting):
            return
        if setting.choices:
            self._write(setting, setting.choices[(setting.choices.index(setting.text) + step) % len(setting.choices)])
        else:
            self._write(setting, not setting.value)

    def action_reset(self) -> None:
        """Remove a field from the file."""
        setting = self._setting
        if setting is not None and self._fields.has_focus and not self._refuse(setting):
            self._write(setting, None)

    def _write(self, setting: Setting, value: str | bool | None) -> None:
        self.run_worker(self._written(setting, value), exclusive=True, group="setting")

    async def _written(self, setting: Setting, value: str | bool | None) -> None:
        from core.errors import HandloomError

        try:
            work = self._ways.reset(setting.name) if value is None else self._ways.change(setting.name, value)
            self._settings = list(await work)
        except HandloomError as error:
            if self.display:
                self._show_message(str(error), wrong=True)
            return
        if not self.display:  # closed while it was saved
            return
        self._stop_editing()
        self._list()
        text = _("{name} is saved. It takes effect {when}.")
        self._show_message(text.format(name=setting.name, when=_(setting.effect)))

    def _stop_editing(self) -> None:
        self.query_one("#settings-value").remove_class("-edited")
        self.set_focus(self._fields)

    def action_find(self) -> None:
        """Filter the fields by typing."""
        self.set_focus(self.query_one("#settings-find"))

    def action_move(self, how: str) -> None:
        """Up or down, as in every list."""
        if isinstance(self.focused, Clickable):
            getattr(self.focused, f"action_{how}")()

    def action_move_from_text(self, how: str) -> None:
        """Move up or down in the lists, and from the search to the fields."""
        if self.focused is self.query_one("#settings-find"):
            self.set_focus(self._fields)
        elif isinstance(self.focused, Clickable):
            getattr(self.focused, f"action_{how}")()

    def action_back(self) -> None:
        """Close the control, then the search, then the settings."""
        find = self.query_one("#settings-find", Input)
        if self.query_one("#settings-value").has_class("-edited"):
            self._stop_editing()
            self._show_message("")
        elif find.value or find.has_focus:
            find.value = ""
            self.set_focus(self._fields)
        else:
            self.dismiss()


def _shown(setting: Setting) -> str:
    """The value, formatted like its control."""
    text = sanitize_line(setting.text, 200)
    if setting.kind == "yes or no":
        return f"● {_('yes')}" if setting.value else f"○ {_('no')}"
    if setting.choices:
        return f"‹ {text} ›"
    return text or (_("not set") if setting.optional else _("empty"))


def _default(setting: Setting) -> str:
    if setting.default is None:
        return _("not set")
    from core.settings.editable_settings import as_text

    if setting.kind == "yes or no":
        return _("yes") if setting.default else _("no")
    return as_text(setting.default) or _("empty")


def _fixed(setting: Setting) -> str:
    """Why a field cannot be changed here, in the language of the screen; empty if it can."""
    words, name = setting.fixed_by
    return _(words).format(name=name)


def _bounds(setting: Setting) -> str:
    """The numbers that are allowed, in the language of the screen."""
    words = (part.rpartition(" ") for part in setting.bounds.split(", "))
    return _(", ").join(f"{_(said)} {number}" for said, space, number in words)


async def show_settings(app: HandloomApp, at: str = "") -> None:
    """Open the settings, at one of them if it is named."""
    if app.manager is None:
        app.flash(_("Handloom is still starting."))
        return
    from core.errors import ConfigurationError
    from core.settings.editable_settings import checked, empty_is_default, sections
    from tui.models import setting_rows as models
    from tui.shortcuts import own_keys

    manager = app.manager

    async def change(name: str, value: str | bool) -> Sequence[Setting]:
        return with_others(await manager.change_setting(name, value))

    async def reset(name: str) -> Sequence[Setting]:
        return with_others(await manager.reset_setting(name))

    def check(name: str, value: str) -> str:
        try:
            if value or not empty_is_default(name):
                checked(name, value)
        except ConfigurationError as error:
            return str(error)
        return ""

    def with_others(settings: Sequence[Setting]) -> list[Setting]:
        return [*models.setting_rows(manager), *settings, *own_keys.setting_rows()]

    async def open_model_row(name: str) -> None:
        await models.open_row(app, manager, name)
        await show_settings(app, name)

    def open_elsewhere(setting: Setting | None) -> None:
        if setting is not None and setting.section == models.SECTION:
            app.attempt(open_model_row(setting.name))
        elif setting is not None:
            edit_keys(app)

    listed = with_others(await manager.read_settings())
    about = {models.SECTION: models.ABOUT, **sections(), own_keys.SECTION: own_keys.ABOUT}
    elsewhere = (models.SECTION, own_keys.SECTION)
    screen = SettingsScreen(listed, about, Operations(change, reset, check), at, elsewhere)
    app.push_screen(screen, open_elsewhere)


ROWS = (
    Command("app.settings", (), "Settings", "See and change every setting. Changes are saved in config.toml.",
            Group.WORKSPACE, leader=",", slash="settings", run=lambda app: app.attempt(show_settings(app)),
            aliases=("config",), also="thinking reasoning effort vim preferences options configuration"),
)  # fmt: skip
