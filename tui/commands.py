"""The table of commands, collected from the features, with the user's keys.

Bindings, leader keys, palette, help, footer hints and docs/shortcuts.md are made from it, so they always agree. Each
feature has its rows in its `commands.py`: title, keys, and the function that carries out the command. `native` rows are
keys that a widget handles; help lists them, and the app does not bind them. The rows are English and have the default
keys; `COMMANDS` has them in the language of the screen, with the user's keys (`tui.shortcuts.keymap`). Tests ensure
that no id occurs twice, no key twice in the same scope, and none of `shortcut_keys.NEVER`.

`python -m tui.commands` prints the table in Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tui.agents import commands as agents
from tui.approval import commands as approval
from tui.batch import commands as batch
from tui.browser import commands as browser
from tui.chat import commands as chat
from tui.events import commands as events
from tui.export import commands as export
from tui.find import commands as find
from tui.i18n import _
from tui.jump import commands as jump
from tui.mcp import commands as mcp
from tui.memory import commands as memory
from tui.models import commands as models
from tui.palette import commands as palette
from tui.pictures import commands as pictures
from tui.plan import commands as plan
from tui.prompt import commands as prompt
from tui.replay import commands as replay
from tui.rerun import commands as rerun
from tui.review import commands as review
from tui.sandbox import commands as sandbox
from tui.secrets import commands as secrets
from tui.sessions import commands as sessions
from tui.settings import commands as settings
from tui.shortcuts import commands as shortcuts
from tui.shortcuts import keymap
from tui.shortcuts.command import Command, Scope, all_keys, key_of, keyed, publish
from tui.statistics import commands as statistics
from tui.terminal import commands as terminal
from tui.themes import commands as themes
from tui.trust import commands as trust
from tui.undo import commands as undo
from tui.workspace import commands as workspace

__all__ = [
    "BY_ID",
    "COMMANDS",
    "KEYMAP",
    "ROWS",
    "WORKING",
    "Command",
    "Scope",
    "all_keys",
    "by_group",
    "by_leader",
    "hints",
    "key_of",
    "keyed",
]

ORDER = (
    "app.palette", "app.leader", "app.help", "app.interrupt", "app.back", "app.redraw", "app.theme",
    "app.reload_themes", "app.copy_mode", "app.settings", "app.keys", "app.jump", "app.secrets", "app.api_keys",
    "app.quit",
    "conv.new", "conv.agent", "conv.manager", "conv.goto", "conv.next", "conv.prev", "conv.close", "conv.left",
    "conv.right", "conv.rename", "conv.export", "conv.reopen", "conv.undo", "conv.redo", "conv.changes", "conv.fork",
    "conv.split", "conv.other", "conv.model", "conv.mode", "conv.pause", "conv.sandbox", "conv.restore", "conv.env",
    "conv.jobs", "conv.ports", "conv.editor",
    "conv.statistics", "conv.agent_costs", "conv.again", "conv.batch", "conv.mcp",
    "memory.compact", "memory.pin", "memory.pin_all", "memory.list", "conv.trust", "conv.knowledge",
    "pane.chat", "pane.events", "terminal.take", "pane.terminal", "pane.browser", "pane.next", "pane.prev",
    "detail.toggle", "tasks.toggle",
    "find", "answer.copy", "picture.open", "picture.save", "ask.focus", "question.move", "question.take", "ask.next",
    "app.permissions", "plan.again",
    "prompt.send", "prompt.newline", "prompt.queue", "queue.drop", "prompt.mode", "prompt.search", "prompt.editor",
    "prompt.paste", "prompt.file", "prompt.reference", "prompt.command", "prompt.shell", "prompt.page_up",
    "prompt.page_down", "prompt.home", "prompt.end", "prompt.up", "prompt.down", "prompt.help", "prompt.quit",
    "list.open", "list.up", "list.down", "list.page_up", "list.page_down", "list.home", "list.end", "list.find_next",
    "list.find_prev",
    "find.next", "find.prev", "find.read", "chat.fold", "chat.copy", "chat.undo",
    "events.filter", "events.jump", "events.copy", "events.goto", "chat.copy_code", "chat.diff",
    "chat.open_picture", "chat.save_picture",
    "browser.prev", "browser.next", "browser.first", "browser.last", "browser.copy_url", "browser.take",
    "browser.hints", "browser.type", "browser.enter", "browser.open", "browser.back", "browser.forward",
    "browser.reload", "browser.up", "browser.down", "browser.page_up", "browser.page_down", "browser.left",
    "browser.right", "browser.zoom", "browser.numbers", "browser.copy_words",
    "browser.open_picture", "browser.save_picture",
    "replay.play", "replay.fork", "replay.next", "replay.prev", "replay.next_turn", "replay.prev_turn", "replay.first",
    "replay.last", "replay.part", "replay.faster", "replay.slower", "replay.skip", "replay.search", "replay.next_hit",
    "replay.prev_hit", "replay.mark", "replay.next_mark", "replay.goto", "replay.live", "replay.open",
    "replay.help", "list.help",
)  # fmt: skip
"""The order of help, palette and docs/shortcuts.md. Commands that are not in it follow at the end."""

FEATURES = (
    palette, shortcuts, workspace, themes, settings, jump, secrets, agents, sessions, export, undo, review, models,
    sandbox, statistics, rerun, batch, mcp, memory, trust, terminal, chat, plan, find, approval, pictures,
    prompt, events, browser, replay,
)  # fmt: skip
_PLACES = {id: place for place, id in enumerate(ORDER)}
ROWS: tuple[Command, ...] = tuple(
    sorted((row for feature in FEATURES for row in feature.ROWS), key=lambda row: _PLACES.get(row.id, len(ORDER)))
)
"""The table in English, with its default keys. A command's help names the keys of others by their ids in braces."""

KEYMAP = keymap.applied([row.translated() for row in ROWS], keymap.chosen())
"""The user's keys, and problems with them."""
publish(KEYMAP.commands)
COMMANDS = tuple(replace(command, help=keyed(command.help)) for command in KEYMAP.commands)
BY_ID = {command.id: command for command in COMMANDS}


def by_leader(key: str) -> tuple[Command, str] | None:
    """The command for a key after the leader, with its argument (the digit of a tab, or "")."""
    if key.isdigit() and key != "0" and BY_ID["conv.goto"].leader:
        return BY_ID["conv.goto"], key
    for command in COMMANDS:
        if command.leader == key:
            return command, ""
    return None


def by_group(commands: Iterable[Command]) -> Iterator[tuple[str, list[Command]]]:
    """The commands of each group that has some, in the table's order of groups."""
    groups: dict[str, list[Command]] = {command.group: [] for command in COMMANDS}
    for command in commands:
        groups[command.group].append(command)
    return ((group, members) for group, members in groups.items() if members)


WORKING = (
    (key_of("prompt.send"), _("sends now")),
    (key_of("app.back"), _("stops the agent")),
    (key_of("prompt.queue"), _("queues")),
)
"""What the prompt's keys do while the agent works."""


ESSENTIAL_HINTS = ("app.help", "app.palette")
"""Named in the hints of every width that has space for them."""


def hints(scope: Scope, *, working: bool = False) -> list[tuple[str, str]]:
    """(key, word) pairs, at most seven, most needed first: two of the scope, help, palette, then the others."""
    if working and scope is Scope.PROMPT:
        return list(WORKING)
    scopes = {scope, Scope.LIST} if scope in (Scope.CHAT, Scope.EVENTS) else {scope}
    named = [c for c in COMMANDS if c.hint and all_keys(c)]
    own = [c for c in named if c.scope in scopes and c.scope is not Scope.GLOBAL]
    shared = [c for c in named if c.scope is Scope.GLOBAL and c.id not in ESSENTIAL_HINTS]
    essential = [BY_ID[id] for id in ESSENTIAL_HINTS if all_keys(BY_ID[id])]
    ordered = own[:2] + essential + own[2:] + shared
    return [(" ".join(keys) if (keys := all_keys(c)[:2]) == ["↑", "↓"] else keys[0], c.hint) for c in ordered][:7]


def markdown() -> str:
    """The table of docs/shortcuts.md."""
    rows = ["| Keys | What | Where |", "|---|---|---|"]
    for command in COMMANDS:
        keys = " · ".join(f"`{key}`" for key in all_keys(command)).replace("|", "\\|")
        rows.append(f"| {keys} | **{command.title}.** {command.help} | {command.scope.words} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(markdown())  # noqa: T201 -- this is what the module does when it is run
