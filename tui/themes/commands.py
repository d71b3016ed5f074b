"""The look of the app: its themes, what the user makes of them while it runs, and who remembers the choice.

A mixin of the app. Only themes that passed the contrast check of `tui.themes.theme_files` are offered. A file of the
user's that changes is taken over as soon as it is complete; one that is wrong is told about and changes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.filter import ANSIToTruecolor, DimFilter, LineFilter

from tui.commands import keyed
from tui.dialogs.dialog import Choice
from tui.file_watcher import Watch, watch
from tui.i18n import _
from tui.terminal_io import glyphs, line_style
from tui.themes import theme_files
from tui.themes.screen import ThemeScreen
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from textual.theme import Theme


class Appearance(Frame):
    """Themes, glyphs and motion, as methods of the app."""

    def prepare_look(self) -> None:
        """Settle what holds for the whole run. Called before anything is drawn."""
        coloured = not line_style.without_colours(os.environ)
        wanted = self.options.screen.pictures != "off"
        glyphs.use(self.options.screen.glyphs, os.environ, coloured=coloured, pictures=wanted)
        self.no_color = not coloured
        if self.options.screen.motion == "reduced":
            self.animation_level = "none"
        self.offered_themes: dict[str, Theme] = {}
        self._theme_stamps: object = None
        self._theme_watch: Watch | None = None

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, but for what it makes of NO_COLOR, and ours."""
        kept = (f for f in super().get_line_filters() if isinstance(f, ANSIToTruecolor | DimFilter))
        return [*kept, *line_style.filters(sixteen=self.native_ansi_color)]

    # -- themes --------------------------------------------------------------------------------------------------------

    @property
    def own_themes(self) -> Path | None:
        """The folder of the user's own themes."""
        return Path(self.options.themes_dir) if self.options.themes_dir else None

    def begin_theme(self) -> list[str]:
        """Load the themes and take the one that is wanted. Answers what is wrong, in words for the user."""
        problems = self._load_themes()
        wanted = self.options.theme or self.options.screen.theme
        if not glyphs.GLYPHS.coloured:
            wanted = theme_files.DEFAULT_ANSI
        elif not wanted:
            few = self.console.color_system == "standard" and not self.is_headless
            wanted = theme_files.DEFAULT_ANSI if few else theme_files.DEFAULT_DARK
        if wanted not in self.offered_themes:
            problems.append(keyed(_("There is no theme {name}. {app.theme} shows which there are."), name=wanted))
            wanted = theme_files.DEFAULT_DARK
        self.theme = wanted
        return problems

    def _load_themes(self) -> list[str]:
        own = self.own_themes
        self._theme_stamps = _stamps(own)
        loaded, problems = theme_files.load_all([theme_files.OURS, *([own] if own is not None else [])])
        self.offered_themes = {theme.name: theme for theme in loaded}
        for theme in loaded:
            self.register_theme(theme)
        return problems

    def watch_themes(self) -> None:
        """Take changes of the user's own themes over as they are made. Called after the first frame."""
        if self.own_themes is not None:
            self._theme_watch = watch(self.own_themes, self._themes_changed)

    def unwatch_themes(self) -> None:
        """Stop that."""
        if self._theme_watch is not None:
            self._theme_watch.close()
            self._theme_watch = None

    def on_app_focus(self) -> None:
        """Whoever edited a theme elsewhere comes back; where nothing watches the folder, this is when it is read."""
        if self._theme_watch is None:
            self._themes_changed()

    def _themes_changed(self) -> None:
        if _stamps(self.own_themes) != self._theme_stamps:
            self.do_app_reload_themes()

    def do_app_reload_themes(self) -> None:
        before, name = self.current_theme, self.theme
        problems = self._load_themes()
        if name not in self.offered_themes:
            self.theme = theme_files.DEFAULT_DARK
        elif self.offered_themes[name] != before:
            self.refresh_css(animate=False)
            self.theme_changed_signal.publish(self.current_theme)
        if problems:
            self.report("\n".join(problems))
        else:
            self.flash(_("{count} themes are loaded.").format(count=len(self.offered_themes)))
        if self._theme_watch is None:
            self.watch_themes()  # the folder may be new

    def do_app_theme(self) -> None:
        if not glyphs.GLYPHS.coloured:
            self.flash(_("NO_COLOR is set in the environment, so there are no colours to choose."))
            return
        self._themes_changed()
        names = sorted(self.offered_themes, key=lambda name: (name != self.theme, name))
        choices = [Choice(name, name, _kind(self.offered_themes[name])) for name in names]

        def show(name: str) -> None:
            if name in self.offered_themes and name != self.theme:
                self.theme = name

        def chosen(name: str | None) -> None:
            if name is not None:
                show(name)
                self.attempt(self._remember_theme(name))

        self.push_screen(ThemeScreen(choices, show), chosen)

    async def _remember_theme(self, name: str) -> None:
        if self.options.home is None:
            return
        from core.settings.config import save_settings

        await asyncio.to_thread(save_settings, self.options.home, {"screen.theme": name})
        self.flash(_("{name} is the theme from now on.").format(name=name))


def _kind(theme: Theme) -> str:
    shade = _("dark") if theme.dark else _("light")
    return _("{shade}, the terminal's 16 colours").format(shade=shade) if theme.ansi else shade


def _stamps(folder: Path | None) -> object:
    """What changes whenever a theme file of the folder does."""
    if folder is None:
        return None
    found = []
    for path in sorted(folder.glob("*.toml")):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # gone since the folder was read
        found.append((path.name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return found
