"""Command: one row of the table of commands, and the texts that name its keys.

A feature has its rows in its `commands.py`; `tui.commands` collects them, applies the user's keys and publishes the
result here, so that a feature can name the keys of any command without importing other features. Texts contain the id
of a command in braces instead of its key, and `keyed` replaces it.
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
    """Where a key works."""

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
        """The name in the language of the screen."""
        return _(self.value)

    @property
    def is_text(self) -> bool:
        """Whether text is typed here."""
        return self in (Scope.GLOBAL, Scope.PROMPT, Scope.EMPTY_PROMPT, Scope.FIND)

    def meets(self, other: Scope) -> bool:
        """Whether keys of both work at the same time."""
        return self is other or Scope.GLOBAL in (self, other) or {self, other} in _TOGETHER


PANE_SCOPES = (Scope.LIST, Scope.CHAT, Scope.EVENTS, Scope.BROWSER)
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
    """Something that the user can do."""

    id: str
    keys: tuple[str, ...]
    """As Textual names them."""
    title: str
    help: str
    group: str
    scope: Scope = Scope.GLOBAL
    leader: str = ""
    """The key after the leader; `1-9` for the digits."""
    hint: str = ""
    """The word in the hints; empty if it is not among them."""
    slash: str = ""
    """The name of the slash command; empty if there is none."""
    native: bool = False
    """Whether the focused widget handles the keys, so the app does not bind them."""
    words: str = ""
    """The arguments of the slash command; empty if it has none."""
    acts: bool = False
    """Whether it changes a conversation, so it is refused in a replay."""
    aliases: tuple[str, ...] = ()
    """Other names of the slash command, which other programs use."""
    also: str = ""
    """More words by which it is found: what other programs call it, and its English words in another language."""
    run: Callable[[HandloomApp], object] | None = None
    """Carries it out; an awaitable result is awaited."""
    run_with: Callable[[HandloomApp, str], object] | None = None
    """Carries it out with the arguments of the slash command, or the digit of a tab."""

    @property
    def in_palette(self) -> bool:
        """Whether the palette lists it."""
        return (self.scope is Scope.GLOBAL or bool(self.slash)) and self.id not in UNLISTED

    @property
    def words_found(self) -> str:
        """The words by which it is found besides those that are shown."""
        return " ".join((self.slash, *self.aliases, self.also))

    def translated(self) -> Command:
        """The command in the language of the screen."""
        title, help = _(self.title), _(self.help)
        also = self.also if title == self.title else f"{self.also} {self.title} {self.help}"
        words = _(self.words) if self.words else ""
        return replace(self, title=title, help=help, group=_(self.group), hint=_(self.hint), words=words, also=also)


UNLISTED = frozenset({"app.palette", "app.leader", "app.back", "conv.goto"})
"""Commands that make no sense in the palette."""

_published: dict[str, Command] = {}


def publish(commands: Iterable[Command]) -> None:
    """Set the table for the functions below. Called once, by `tui.commands`."""
    _published.update({command.id: command for command in commands})


def all_keys(command: Command) -> list[str]:
    """Every key and leader key of a command, as they are shown."""
    keys = [show_key(key) for key in command.keys]
    leader = _published["app.leader"].keys
    return [*keys, f"{show_key(leader[0])} {command.leader}"] if command.leader and leader else keys


def key_of(id: str) -> str:
    """How to give a command, for a sentence: a key, else its slash command, else its title."""
    command = _published[id]
    named = f"/{command.slash}" if command.slash else f"“{command.title}”"
    return next(iter(all_keys(command)), named)


def keys_of(id: str) -> tuple[str, ...]:
    """The keys of a command, as Textual names them."""
    return _published[id].keys


class _Keys(Formatter):
    """Replaces ids of commands by their keys."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if field_name in _published:
            return key_of(field_name), field_name
        return super().get_field(field_name, args, kwargs)


def keyed(text: str, **values: object) -> str:
    """A text with the keys of the commands that it names, as in `{conv.new}`, and other values."""
    return _Keys().vformat(text, (), values)
