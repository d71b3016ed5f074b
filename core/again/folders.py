"""Folders: the recorded workspace in a text becomes the one of the run. Pure.

Every text of an action that a sandbox acts upon is moved, file contents and commands as well, so that what is run again
in a copy does not reach into the folder that it was copied from. Paths that a program puts together by itself are not
seen here; a sandbox holds those.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.events import Action

_MOVED = ("path", "command", "code", "cwd", "file_text", "old_str", "new_str", "content")
"""The fields of actions that name files. What was said or thought stays as it was."""
_SHORTEST = 2
"""Of a folder's name: `/` begins every path and means nothing."""


class Folders:
    """The way from recorded folders to the new one. `home` is the user's, which a shell writes as `~`."""

    def __init__(self, recorded: Sequence[str], new: str, home: str = "") -> None:
        self.new = new.rstrip("/") or "/"
        names = {folder.rstrip("/") for folder in recorded}
        names = {name for name in names if len(name) >= _SHORTEST and name != self.new}
        self.recorded = tuple(sorted(names, key=len, reverse=True))
        short = [
            start + name.removeprefix(home)
            for name in self.recorded
            if len(home) >= _SHORTEST and name.startswith(home + "/")
            for start in ("~", "$HOME", "${HOME}")
        ]
        known = "|".join(map(re.escape, (*self.recorded, *short)))
        # not within a longer name: neither /srv/workspace nor /workspace2 nor /workspace.bak is /workspace
        self._pattern = re.compile(rf"(?<![\w.~-])(?:{known})(?![\w-]|\.\w)") if known else None

    def moved(self, text: str) -> str:
        """The text with the new folder in place of each recorded one."""
        return self._pattern.sub(lambda _: self.new, text) if self._pattern else text

    def moved_action(self, action: Action) -> Action:
        """The action as it is to be run in the new folder."""
        update = {
            name: text
            for name in _MOVED
            if isinstance(value := getattr(action, name, None), str) and (text := self.moved(value)) != value
        }
        return action.model_copy(update=update) if update else action
