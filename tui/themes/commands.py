"""Themes: chosen and changed while the app runs.

Only themes that passed the contrast check of `tui.themes.theme_files` are offered. A changed file of the user's is
applied as soon as it is complete; a wrong one is reported and changes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.filter import ANSIToTruecolor, DimFilter, LineFilter
from textual.widgets import OptionList

from tui.dialogs.dialog import Choice, ChoiceScreen
from tui.file_watcher import Watch, watch
from tui.i18n import _
from tui.shortcuts.command import Command, Group, keyed
from tui.terminal_io import glyphs, line_style
from tui.themes import theme_files

if TYPE_CHECKING:
    from textual.theme import Theme

    from tui.app import HandloomApp


class ThemeScreen(ChoiceScreen):
    """Chooses a theme; the highlighted one is previewed."""

    DEFAULT_CSS = """
    ThemeScreen { background: transparent; align: right middle; & > Vertical { width: 100%; max-width: 46; } }
    """

    def __init__(self, choices: Sequence[Choice], preview: Callable[[str], None]) -> None:
        super().__init__(_("Theme"), choices, empty=_("No theme has this name."))
        self._preview = preview

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id is not None:
            self._preview(event.option_id)


class Themes:
    """Themes, glyphs and motion."""

    def __init__(self, app: HandloomApp) -> None:
        """Sets glyphs, colours and motion for the whole run. Called before anything is drawn."""
        self._app = app
        screen = app.options.screen
        coloured = not line_style.without_colours(os.environ)
        glyphs.use(screen.glyphs, os.environ, coloured=coloured, pictures=screen.pictures)
        app.no_color = not coloured
        if screen.motion == "reduced":
            app.animation_level = "none"
        self._own_folder = Path(app.options.themes_dir) if app.options.themes_dir else None
        self.offered: dict[str, Theme] = {}
        self._stamps_seen: object = None
        self._watch: Watch | None = None

    def line_filters(self, filters: Sequence[LineFilter]) -> Sequence[LineFilter]:
        """Textual's filters without that for NO_COLOR, and ours."""
        textual = (one for one in filters if isinstance(one, ANSIToTruecolor | DimFilter))
        return [*textual, *line_style.filters(sixteen=self._app.native_ansi_color)]

    def begin(self) -> list[str]:
        """Load the themes and apply the chosen one. Returns messages about problems.

        Called before the app runs, or every style sheet would be read twice. Then it is not known yet whether it has a
        terminal, so `apply` is called again when it runs.
        """
        problems = self._load()
        self.apply()
        return problems

    def apply(self) -> list[str]:
        """Apply the chosen theme. Returns messages about problems."""
        problems: list[str] = []
        wanted = self._app.options.theme or self._app.options.screen.theme
        if not glyphs.GLYPHS.coloured:
            wanted = theme_files.DEFAULT_ANSI
        elif not wanted:
            has_16_colours = self._app.console.color_system == "standard" and not self._app.is_headless
            wanted = theme_files.DEFAULT_ANSI if has_16_colours else theme_files.DEFAULT_DARK
        if wanted not in self.offered:
            problems.append(keyed(_("There is no theme {name}. {app.theme} lists the themes."), name=wanted))
            wanted = theme_files.DEFAULT_DARK
        self._app.theme = wanted
        return problems

    def _load(self) -> list[str]:
        self._stamps_seen = _stamps(self._own_folder)
        loaded, problems = theme_files.load_all(filter(None, (theme_files.OURS, self._own_folder)))
        self.offered = {theme.name: theme for theme in loaded}
        for theme in loaded:
            self._app.register_theme(theme)
        return problems

    def watch(self) -> None:
        """Apply changes of the user's own themes as they are made. Called after the first frame."""
        if self._own_folder is not None:
            self._watch = watch(self._own_folder, self._changed)

    def unwatch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def note_focus(self) -> None:
        """Read the user's themes when the terminal gets the focus, if the folder is not watched."""
        if self._watch is None:
            self._changed()

    def _changed(self) -> None:
        if _stamps(self._own_folder) != self._stamps_seen:
            self.reload()

    def reload(self) -> None:
        """Read the themes again."""
        before, name = self._app.current_theme, self._app.theme
        problems = self._load()
        if name not in self.offered:
            self._app.theme = theme_files.DEFAULT_DARK
        elif self.offered[name] != before:
            self._app.refresh_css(animate=False)
            self._app.theme_changed_signal.publish(self._app.current_theme)
        if problems:
            self._app.report("\n".join(problems))
        else:
            self._app.flash(_("{count} themes are loaded.").format(count=len(self.offered)))
        if self._watch is None:
            self.watch()  # the folder may be new

    def choose(self) -> None:
        """Let the user choose a theme."""
        if not glyphs.GLYPHS.coloured:
            self._app.flash(_("NO_COLOR is set in the environment, so there are no colours to choose."))
            return
        self._changed()
        before = self._app.theme
        names = sorted(self.offered, key=lambda name: (name != before, name))
        choices = [Choice(name, name, _kind(self.offered[name])) for name in names]

        def apply(name: str) -> None:
            if name in self.offered and name != self._app.theme:
                self._app.theme = name

        def chosen(name: str | None) -> None:
            apply(name or before)
            if name is not None:
                self._app.attempt(self._save(name))

        self._app.push_screen(ThemeScreen(choices, apply), chosen)

    async def _save(self, name: str) -> None:
        if self._app.options.home is None:
            return
        from core.settings.config import save_settings

        await asyncio.to_thread(save_settings, self._app.options.home, {"screen.theme": name})
        self._app.flash(_("Theme changed to {name}.").format(name=name))


def _kind(theme: Theme) -> str:
    shade = _("dark") if theme.dark else _("light")
    return _("{shade}, the terminal's 16 colours").format(shade=shade) if theme.ansi else shade


def _stamps(folder: Path | None) -> object:
    """A value that differs whenever a theme file of the folder has changed."""
    if folder is None:
        return None
    stamps = []
    for path in sorted(folder.glob("*.toml")):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # removed since the folder was read
        stamps.append((path.name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return stamps


ROWS = (
    Command("app.theme", (), "Theme", "Choose a theme.", Group.WORKSPACE, leader="t", slash="theme",
            run=lambda app: app.themes.choose(),
            also="light dark colors colours appearance"),
    Command("app.reload_themes", (), "Reload themes", "Read your own theme files again.", Group.WORKSPACE, leader="C",
            run=lambda app: app.themes.reload()),
)  # fmt: skip
