"""A command of the workspace: one row of the table, and the texts that name its keys.

A feature has its rows in its `commands.py`; `tui.commands` collects them, gives them the user's keys and publishes the
result here, so that a feature can name the keys of any command without knowing the other features. A text never writes
a key of a command: it writes the command's id in braces, and `keyed` fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from string import Formatter
from typing import TYPE_CHECKING, Any

from tui.i18n import _
from tui.shortcuts.shortcut_keys import shown as show_key

if TYPE_CHECKING:
    from tui.app import HandloomApp


class Scope(StrEnum):
    """Where a key answers."""

    GLOBAL = "everywhere"
    PROMPT = "prompt"
    EMPTY_PROMPT = "empty prompt"
    LIST = "panes"
    CHAT = "chat"
    EVENTS = "event log"
    BROWSER = "browser"
    QUESTION = "question"
    FIND = "find"
    REPLAY = "replay"

    @property
    def words(self) -> str:
        """Its name in the language of the screen."""
        return _(self.value)

    @property
    def is_text(self) -> bool:
        """Whether keys that write have to write here."""
        return self in (Scope.GLOBAL, Scope.PROMPT, Scope.EMPTY_PROMPT, Scope.FIND)

    def meets(self, other: Scope) -> bool:
        """Whether keys of both answer at the same time."""
        return self is other or Scope.GLOBAL in (self, other) or {self, other} in _TOGETHER


_TOGETHER = ({Scope.PROMPT, Scope.EMPTY_PROMPT}, {Scope.LIST, Scope.CHAT}, {Scope.LIST, Scope.EVENTS})


class Group(StrEnum):
    """The headings under which help and palette list commands."""

    WORKSPACE = "Workspace"
    CONVERSATIONS = "Conversations"
    PANES = "Panes"
    QUESTIONS = "Questions"
    PROMPT = "Prompt"
    READING = "Reading"
    REPLAY = "Replay"


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that the user can ask for."""

    id: str
    keys: tuple[str, ...]
    """As Textual names them."""
    title: str
    help: str
    group: str
    scope: Scope = Scope.GLOBAL
    leader: str = ""
    """The key after the leader; `1-9` means the digits."""
    hint: str = ""
    """The word in the footer's hints; empty leaves it out."""
    slash: str = ""
    """Its name behind a slash at the start of the prompt; empty where it is none."""
    native: bool = False
    """The widget in focus answers to the keys; the app binds nothing."""
    words: str = ""
    """What may follow its name at the prompt; empty if nothing may."""
    acts: bool = False
    """It changes a conversation, so it cannot be given in a replay."""
    also: str = ""
    """What else it is found by: its English words, where the screen speaks another language."""
    run: Callable[[HandloomApp], object] | None = None
    """Carries it out; what can be awaited is awaited."""
    run_with: Callable[[HandloomApp, str], object] | None = None
    """Carries it out with the words behind its name, or with the digit of a tab."""

    @property
    def in_palette(self) -> bool:
        """Whether it makes sense to choose it from a list."""
        return self.scope is Scope.GLOBAL and self.id not in UNLISTED

    def translated(self) -> Command:
        """The command in the language of the screen."""
        title, help = _(self.title), _(self.help)
        also = "" if title == self.title else f"{self.title} {self.help}"
        words = _(self.words) if self.words else ""
        return replace(self, title=title, help=help, group=_(self.group), hint=_(self.hint), words=words, also=also)


UNLISTED = frozenset({"app.palette", "app.leader", "app.back", "conv.goto"})
"""Commands that mean nothing once the palette is open."""

_published: dict[str, Command] = {}


def publish(commands: Iterable[Command]) -> None:
    """Make the table known to the functions below. Called once, by `tui.commands`."""
    _published.update({command.id: command for command in commands})


def all_keys(command: Command) -> list[str]:
    """Every key and leader key of a command, as they are shown; empty if the user removed them all."""
    keys = [show_key(key) for key in command.keys]
    leader = _published["app.leader"].keys
    return [*keys, f"{show_key(leader[0])} {command.leader}"] if command.leader and leader else keys


def key_of(id: str) -> str:
    """What gives a command, for a sentence that names it: a key, else its name behind a slash, else its title."""
    command = _published[id]
    named = f"/{command.slash}" if command.slash else f"“{command.title}”"
    return next(iter(all_keys(command)), named)


def keys_of(id: str) -> tuple[str, ...]:
    """The keys of a command, as Textual names them."""
    return _published[id].keys


class _Keys(Formatter):
    """Fills places that are ids of commands with their keys."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if field_name in _published:
            return key_of(field_name), field_name
        return super().get_field(field_name, args, kwargs)


def keyed(text: str, **values: object) -> str:
    """A text of ours with the keys of the commands that it names, as `{conv.new}`, and values in its other places."""
    return _Keys().vformat(text, (), values)
