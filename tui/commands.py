"""The one table of commands and their default keys.

Bindings, leader keys, palette, help, footer hints and docs/shortcuts.md are made from it, so none of them can promise
a key that another does not know. A command is carried out by `HandloomApp.do_<id with _ for .>`. `NATIVE` rows are
keys that a widget answers to by itself; they are listed for help and bound by nobody. The rows are English and have the
default keys; `COMMANDS` has them in the language of the screen, with the keys that the user gave them
(`tui.shortcuts.keymap`). So a text never writes a key of a command: it writes the command's id as a place, and `keyed`
fills it. Invariants, held by tests: no key twice where both would answer, none of `keys.NEVER`, no id twice.

`python -m tui.commands` prints the table in Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from string import Formatter
from typing import Any

from tui.i18n import _
from tui.shortcuts import keymap
from tui.shortcuts.shortcut_keys import shown as show_key


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
        """For people, in the language of the screen."""
        return _(self.value)

    @property
    def is_text(self) -> bool:
        """Whether keys that write have to write here."""
        return self in (Scope.GLOBAL, Scope.PROMPT, Scope.EMPTY_PROMPT, Scope.FIND)

    def meets(self, other: Scope) -> bool:
        """Whether keys of both answer at the same time."""
        return self is other or Scope.GLOBAL in (self, other) or {self, other} in _TOGETHER


_TOGETHER = ({Scope.PROMPT, Scope.EMPTY_PROMPT}, {Scope.LIST, Scope.CHAT}, {Scope.LIST, Scope.EVENTS})


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
    """The key after the leader; `1-9` stands for the digits."""
    hint: str = ""
    """The word in the footer's hints; empty leaves it out."""
    slash: str = ""
    """Its name behind a slash at the start of the prompt; empty where it is none."""
    native: bool = False
    """The widget in focus answers by itself; the app binds nothing."""
    words: str = ""
    """What may stand behind its name at the prompt; empty where nothing may."""
    acts: bool = False
    """It changes a conversation, so it cannot be given in a replay."""
    also: str = ""
    """What else it is found by: its English words, where the screen speaks another language."""

    @property
    def method(self) -> str:
        """The name of the app's method that carries it out."""
        return "do_" + self.id.replace(".", "_")

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

_APP, _CONV, _PANE = "Workspace", "Conversations", "Panes"
_PROMPT, _LIST, _ASK, _REPLAY = "Prompt", "Reading", "Questions", "Replay"

ROWS: tuple[Command, ...] = (
    Command("app.palette", ("ctrl+p",), "Command palette", "Find a command by its name.", _APP, hint="commands"),
    Command("app.leader", ("ctrl+x",), "Leader", "Wait for a second key; shows which there are.", _APP),
    Command("app.help", ("f1",), "Help", "Show every key.", _APP, leader="?", hint="help", slash="help"),
    Command("app.interrupt", ("ctrl+c",), "Copy, clear, stop or quit",
            "Copy the selection; else clear the prompt; else stop the agent; else press twice to quit.", _APP),
    Command("app.back", ("escape",), "Back, or stop the agent",
            "Leave the leader; step back in a question; stop the agent; restore a pane; return to the prompt.", _APP),
    Command("app.redraw", ("ctrl+l",), "Redraw", "Paint everything anew and go to the end.", _APP, slash="redraw"),
    Command("app.theme", (), "Theme", "Choose the colours.", _APP, leader="t", slash="theme"),
    Command("app.reload_themes", (), "Reload colours", "Read the files of your own themes again.", _APP,
            leader="C"),
    Command("app.copy_mode", (), "Copy mode", "One pane, and the terminal's own mouse to select with.", _APP,
            leader="k", slash="select"),
    Command("app.settings", (), "Settings", "See and change every setting; config.toml keeps what you change.", _APP,
            leader=",", slash="settings"),
    Command("app.keys", (), "Your own keys", "Give commands other keys: opens config.toml in your editor, then "
            "checks it.", _APP, slash="keys"),
    Command("app.jump", (), "Jump", "Letters stand over whatever can have the focus; a letter goes there.", _APP,
            leader="g", slash="jump"),
    Command("app.secrets", (), "Secrets", "What commands may use and agents do not see; add and forget.", _APP,
            leader="S", slash="secrets"),
    Command("app.quit", ("ctrl+q",), "Quit", "Leave; asks first if an agent is working.", _APP, leader="q",
            slash="quit"),
    Command("conv.new", ("ctrl+n",), "New conversation", "Begin one in a new tab.", _CONV, leader="n", slash="new"),
    Command("conv.agent", (), "New with another agent", "Choose who works: one that only reads, one that plans first, "
            "one of your own.", _CONV, leader="G", slash="agent"),
    Command("conv.manager", ("ctrl+s",), "Conversations", "Find, open, rename and delete conversations.", _CONV,
            leader="l", slash="sessions"),
    Command("conv.goto", (), "Go to tab", "Show the tab with this number.", _CONV, leader="1-9"),
    Command("conv.next", ("ctrl+pagedown",), "Next tab", "Show the next conversation.", _CONV, leader="]"),
    Command("conv.prev", ("ctrl+pageup",), "Previous tab", "Show the previous conversation.", _CONV, leader="["),
    Command("conv.close", (), "Close tab", "Close this conversation; it is kept and can be opened again.", _CONV,
            leader="w", slash="close"),
    Command("conv.left", (), "Move tab left", "Change places with the tab before.", _CONV, leader="<"),
    Command("conv.right", (), "Move tab right", "Change places with the next tab.", _CONV, leader=">"),
    Command("conv.rename", (), "Rename", "Give this conversation a name.", _CONV, leader="r", slash="rename",
            acts=True),
    Command("conv.export", (), "Export", "Write this conversation into a file that others can read.", _CONV, leader="e",
            slash="export"),
    Command("conv.reopen", (), "Reopen tab", "Open the tab that was closed last.", _CONV, leader="T", slash="reopen"),
    Command("conv.undo", (), "Undo", "Take back a message and what came of it: the chat, the files, or both.", _CONV,
            leader="u", slash="undo", acts=True),
    Command("conv.redo", (), "Redo", "Take the last undo back.", _CONV, leader="R", slash="redo", acts=True),
    Command("conv.changes", (), "Changes", "What the agent has changed in the files: accept it or take it back.", _CONV,
            leader="d", slash="changes", acts=True),
    Command("conv.fork", (), "Fork", "Go on from the chosen event, or the end, in a conversation of its own.", _CONV,
            leader="f", slash="fork"),
    Command("conv.split", (), "Side by side", "Show the conversation before beside this one; again shows one.", _CONV,
            leader="v", slash="split"),
    Command("conv.other", (), "Other side", "Go to the conversation beside this one.", _CONV, leader="o"),
    Command("conv.model", (), "Model", "Choose the model of this conversation.", _CONV, leader="m", slash="model",
            acts=True),
    Command("conv.pause", (), "Pause or resume", "Let the agent stop after its step, or go on.", _CONV, leader="p",
            slash="pause", acts=True),
    Command("conv.sandbox", (), "Sandbox", "What separates it from this machine, what it may, what it uses.", _CONV,
            leader="s", slash="sandbox", acts=True),
    Command("conv.restore", (), "Restore a file", "Put back a file that was moved aside as NAME.from-sandbox.", _CONV,
            slash="restore", words="NAME", acts=True),
    Command("conv.jobs", (), "Background jobs", "See what commands left running, and end it.", _CONV, leader="j",
            slash="jobs", acts=True),
    Command("conv.statistics", (), "Statistics", "What this conversation took: answers, tokens, cost, time.", _CONV,
            leader="$", slash="statistics"),
    Command("conv.again", (), "Run again", "Its actions in a sandbox again, without a model; compares the results.",
            _CONV, leader="A", slash="again"),
    Command("conv.mcp", (), "MCP servers", "Which there are, how they stand, and which tools were called.", _CONV,
            leader="M", slash="mcp"),
    Command("memory.compact", (), "Condense", "Have the history summed up for the model; say what it is to keep.",
            _CONV, leader="c", slash="compact", words="what to keep", acts=True),
    Command("memory.pin", (), "Remember", "Pin a fact: agents in this project are told of it from then on.", _CONV,
            slash="remember", words="a fact"),
    Command("memory.pin_all", (), "Remember everywhere", "Pin a fact that agents in every project are told of.",
            _CONV, slash="rememberall", words="a fact"),
    Command("memory.list", (), "Memory", "See what is remembered, and forget it.", _CONV, leader="b",
            slash="memory"),
    Command("conv.trust", (), "Trust of this folder", "What the project brings for agents: read it, say yes or take it "
            "back.", _CONV, leader="F", slash="trust"),
    Command("conv.knowledge", (), "Skills and microagents", "What the agent is told, from where, when, and what is "
            "wrong.", _CONV, leader="K", slash="skills"),
    Command("pane.chat", ("f2",), "Chat", "Go to the chat; again fills the screen; a third time restores.", _PANE,
            slash="chat"),
    Command("pane.events", ("f3",), "Events", "Go to the event log; again fills the screen; then restores.", _PANE,
            slash="events"),
    Command("terminal.take", ("f12",), "Take over the terminal", "Type in the agent's own terminal while it waits; the "
            "same key, or ctrl+], gives it back.", _PANE, leader="i", slash="takeover", acts=True),
    Command("pane.terminal", ("f4",), "Terminal", "Go to the terminal; again fills the screen; then restores.", _PANE,
            slash="terminal"),
    Command("pane.browser", ("f5",), "Browser", "Go to the pages that the agent saw; again fills the screen.", _PANE,
            slash="browser"),
    Command("pane.next", ("f6",), "Next pane", "Move the focus on.", _PANE, hint="panes"),
    Command("pane.prev", ("shift+f6",), "Previous pane", "Move the focus back.", _PANE),
    Command("detail.toggle", ("ctrl+o",), "Fold or unfold output",
            "Show tool output in full, or folded; in the prompt, a pasted text in the place of its chip.", _PANE,
            slash="fold"),
    Command("tasks.toggle", ("ctrl+t",), "Plan", "Show the agent's plan, or take it away.", _PANE, slash="plan"),
    Command("find", ("ctrl+f",), "Find", "Find text in the pane in focus; {find.next} goes on, {find.prev} back, "
            "{app.back} ends it.", _PANE, hint="find", slash="find"),
    Command("answer.copy", (), "Copy the last answer", "What the agent said last, as it wrote it.", _PANE, leader="y",
            slash="copy"),
    Command("ask.focus", (), "Answer the question", "Go to the prompt, above which the question is.", _ASK, leader="a"),
    Command("question.move", ("up", "down", *"123456789"), "Choose an answer", "Arrows and digits move the highlight "
            "while the prompt is empty; they answer nothing.", _ASK, Scope.QUESTION, hint="choose", native=True),
    Command("question.take", ("enter",), "Answer", "On an empty prompt: what the highlighted row says. With text: deny "
            "the action, and tell the agent the text.", _ASK, Scope.QUESTION, hint="answer", native=True),
    Command("ask.next", (), "Next that waits", "Go to the next conversation that waits for your answer.", _ASK,
            leader="N", slash="waiting"),
    Command("app.permissions", (), "Permissions", "What you have allowed or denied for good; take it back.", _APP,
            leader="Y", slash="permissions"),
    Command("plan.again", (), "Plan again", "The agent changes nothing more before you approve another plan.", _ASK,
            leader="L", slash="replan", acts=True),
    Command("prompt.send", ("enter",), "Send", "Send the message.", _PROMPT, Scope.PROMPT, hint="send", native=True),
    Command("prompt.newline", ("ctrl+j",), "New line", "Begin a new line (shift+enter where the terminal tells).",
            _PROMPT, Scope.PROMPT, hint="new line", native=True),
    Command("prompt.queue", ("tab",), "Queue", "Say it once the agent rests; {prompt.send} says it now.", _PROMPT,
            Scope.PROMPT, hint="queue"),
    Command("queue.drop", (), "Take back what is queued", "The last one goes back into the prompt.", _PROMPT,
            leader="Q", acts=True),
    Command("prompt.mode", ("shift+tab",), "When to ask", "Ask before each action, edit freely, or only plan.", _PROMPT,
            Scope.PROMPT, hint="mode", slash="mode"),
    Command("prompt.search", ("ctrl+r",), "Search what was sent",
            "Typing narrows, {prompt.search} goes further back, Enter takes it, Esc leaves the text as it was.",
            _PROMPT, Scope.PROMPT, native=True),
    Command("prompt.editor", ("ctrl+g",), "Your editor", "Write the message in $VISUAL or $EDITOR.", _PROMPT,
            Scope.PROMPT, slash="editor"),
    Command("prompt.paste", ("ctrl+v",), "Paste", "Text, or the picture in the clipboard, which goes with the message.",
            _PROMPT, Scope.PROMPT, native=True),
    Command("prompt.file", ("at",), "File", "At the start of a word: choose a file of the workspace.", _PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.reference", ("number_sign",), "Event",
            "At the start of a word: choose an event; the model reads what it was.", _PROMPT, Scope.PROMPT,
            native=True),
    Command("prompt.command", ("slash",), "Command",
            "Handloom's commands, and your own from commands/*.md in its home; // sends a slash.", _PROMPT,
            Scope.EMPTY_PROMPT, native=True),
    Command("prompt.shell", ("exclamation_mark",), "Shell", "Run a command where the agent works; it reads the result.",
            _PROMPT, Scope.EMPTY_PROMPT, native=True),
    Command("prompt.page_up", ("pageup",), "Scroll the chat up", "Read back without leaving the prompt.", _PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.page_down", ("pagedown",), "Scroll the chat down", "Read on without leaving the prompt.", _PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.home", ("ctrl+home",), "Start of the chat", "Scroll to the oldest loaded message.", _PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.end", ("ctrl+end",), "End of the chat", "Scroll to the newest message.", _PROMPT, Scope.PROMPT,
            native=True),
    Command("prompt.up", ("up",), "Earlier message", "At the upper edge: what was sent before.", _PROMPT, Scope.PROMPT,
            native=True),
    Command("prompt.down", ("down",), "Later message", "At the lower edge: what was sent after.", _PROMPT,
            Scope.PROMPT, native=True),
    Command("prompt.help", ("question_mark",), "Help", "Show every key.", _PROMPT, Scope.EMPTY_PROMPT, native=True),
    Command("prompt.quit", ("ctrl+d",), "Quit", "Leave; asks first if an agent is working.", _PROMPT,
            Scope.EMPTY_PROMPT),
    Command("list.open", ("enter",), "Open", "Show the event in full; unfold the block.", _LIST, Scope.LIST,
            hint="open", native=True),
    Command("list.up", ("up", "k"), "Up", "The line, block or event above.", _LIST, Scope.LIST, native=True),
    Command("list.down", ("down", "j"), "Down", "The line, block or event below.", _LIST, Scope.LIST, native=True),
    Command("list.page_up", ("pageup", "b"), "Page up", "One page up.", _LIST, Scope.LIST, native=True),
    Command("list.page_down", ("pagedown", "f"), "Page down", "One page down.", _LIST, Scope.LIST, native=True),
    Command("list.home", ("home", "g"), "Start", "To the first line; older events are loaded there.", _LIST,
            Scope.LIST, native=True),
    Command("list.end", ("end", "G"), "End", "To the last line, and follow it.", _LIST, Scope.LIST, hint="newest",
            native=True),
    Command("list.find_next", ("n",), "Next hit", "While something is searched for: the next place.", _LIST, Scope.LIST,
            native=True),
    Command("list.find_prev", ("N",), "Hit before", "The place before; before the first, older events are loaded.",
            _LIST, Scope.LIST, native=True),
    Command("find.next", ("enter",), "Next hit", "The next place; after the last one, the first.", _LIST, Scope.FIND,
            hint="next", native=True),
    Command("find.prev", ("up", "shift+enter"), "Hit before", "The place before.", _LIST, Scope.FIND, hint="before",
            native=True),
    Command("find.read", ("tab",), "Read on", "To the pane; {list.find_next} and {list.find_prev} go on there, "
            "{app.back} ends the search.", _LIST, Scope.FIND, hint="to the pane", native=True),
    Command("chat.fold", ("space",), "Fold or unfold", "The output of the block under the cursor.", _LIST,
            Scope.CHAT, hint="fold", native=True),
    Command("chat.copy", ("c",), "Copy", "The block under the cursor.", _LIST, Scope.CHAT, hint="copy", native=True),
    Command("chat.undo", ("u",), "Undo from here", "Take back the message under the cursor and what came after it.",
            _LIST, Scope.CHAT, native=True),
    Command("events.filter", ("slash",), "Filter", 'Show some events only: type:run exit!=0 text~"no such file".',
            _LIST, Scope.EVENTS, hint="filter"),
    Command("events.jump", ("o",), "Cause or outcome", "From an action to what came of it, and back.", _LIST,
            Scope.EVENTS, hint="outcome", native=True),
    Command("events.copy", ("c",), "Copy", "The event under the cursor, as JSON.", _LIST, Scope.EVENTS, hint="copy",
            native=True),
    Command("events.goto", (), "Go to event", "By its number.", _LIST, leader="#"),
    Command("chat.copy_code", ("y",), "Copy the code", "The code in sight; again, the next of the block. Of a tool, "
            "what it printed.", _LIST, Scope.CHAT, native=True),
    Command("chat.diff", ("d",), "Differences side by side", "Beside each other, or in one column.", _LIST,
            Scope.CHAT, native=True),
    Command("browser.prev", ("left", "h"), "Page before", "The picture of the step before.", _LIST, Scope.BROWSER,
            hint="before", native=True),
    Command("browser.next", ("right", "l"), "Page after", "The picture of the step after.", _LIST, Scope.BROWSER,
            hint="after", native=True),
    Command("browser.first", ("home", "g"), "First page", "The first picture that is loaded.", _LIST, Scope.BROWSER,
            native=True),
    Command("browser.last", ("end", "G"), "Newest page", "The newest picture, and follow it.", _LIST, Scope.BROWSER,
            hint="newest", native=True),
    Command("browser.copy_url", ("u",), "Copy the address", "The address of the page.", _LIST, Scope.BROWSER,
            hint="copy address", native=True),
    Command("browser.take", ("t",), "Take over, or give back", "You act in the browser, and the agent waits; again "
            "gives it back.", _LIST, Scope.BROWSER, hint="take over", native=True),
    Command("browser.hints", ("f",), "Click by letters", "Letters stand over what can be clicked or filled; typing "
            "them does it.", _LIST, Scope.BROWSER, hint="click", native=True),
    Command("browser.type", ("i",), "Type", "Write into the field that has the focus.", _LIST, Scope.BROWSER,
            hint="type", native=True),
    Command("browser.enter", ("enter",), "Press Enter", "On the page: sends a form, follows what has the focus.", _LIST,
            Scope.BROWSER, native=True),
    Command("browser.open", ("o",), "Open an address", "Go to another page.", _LIST, Scope.BROWSER, native=True),
    Command("browser.back", ("left_square_bracket",), "Back", "The page before this one, as in any browser.", _LIST,
            Scope.BROWSER, native=True),
    Command("browser.forward", ("right_square_bracket",), "Forward", "The page after this one.", _LIST,
            Scope.BROWSER, native=True),
    Command("browser.reload", ("r",), "Load again", "The page again, from where it came.", _LIST, Scope.BROWSER,
            native=True),
    Command("browser.up", ("up", "k"), "Scroll up", "The page, or first what is enlarged of it.", _LIST, Scope.BROWSER,
            native=True),
    Command("browser.down", ("down", "j"), "Scroll down", "The page, or first what is enlarged of it.", _LIST,
            Scope.BROWSER, native=True),
    Command("browser.page_up", ("pageup",), "Screen up", "The page by most of a screen.", _LIST, Scope.BROWSER,
            native=True),
    Command("browser.page_down", ("pagedown",), "Screen down", "The page by most of a screen.", _LIST, Scope.BROWSER,
            native=True),
    Command("browser.left", ("H",), "Scroll left", "The page, or first what is enlarged of it.", _LIST, Scope.BROWSER,
            native=True),
    Command("browser.right", ("L",), "Scroll right", "The page, or first what is enlarged of it.", _LIST,
            Scope.BROWSER, native=True),
    Command("browser.zoom", ("z",), "Enlarge", "Large enough to read every word, or the whole page.", _LIST,
            Scope.BROWSER, hint="enlarge", native=True),
    Command("browser.numbers", ("m",), "Numbers", "The numbers by which the agent knows the elements.", _LIST,
            Scope.BROWSER, native=True),
    Command("browser.copy_words", ("y",), "Copy the words", "All that can be read in the picture.", _LIST,
            Scope.BROWSER, native=True),
    Command("replay.play", ("space",), "Play or pause", "Go on at the pace of that time, or stand still.", _REPLAY,
            Scope.REPLAY, hint="play"),
    Command("replay.next", ("right",), "Event after", "One event on.", _REPLAY, Scope.REPLAY, hint="event"),
    Command("replay.prev", ("left",), "Event before", "One event back.", _REPLAY, Scope.REPLAY),
    Command("replay.next_turn", ("shift+right",), "Turn after", "To the next message of the user.", _REPLAY,
            Scope.REPLAY, hint="turn"),
    Command("replay.prev_turn", ("shift+left",), "Turn before", "To the message of the user before.", _REPLAY,
            Scope.REPLAY),
    Command("replay.first", ("home",), "Beginning", "To the first event.", _REPLAY, Scope.REPLAY),
    Command("replay.last", ("end",), "End", "To the last event.", _REPLAY, Scope.REPLAY),
    Command("replay.part", tuple("123456789"), "To a tenth", "1 goes to 10 %, 9 to 90 % of the conversation.", _REPLAY,
            Scope.REPLAY, native=True),
    Command("replay.faster", ("plus", "equals_sign"), "Faster", "Twice as fast, up to 64 times.", _REPLAY,
            Scope.REPLAY, hint="faster"),
    Command("replay.slower", ("minus",), "Slower", "Half as fast, down to a quarter.", _REPLAY, Scope.REPLAY),
    Command("replay.skip", ("s",), "Skip waiting", "Where nothing happens for long, wait no longer than a moment.",
            _REPLAY, Scope.REPLAY, hint="skip waiting"),
    Command("replay.search", ("slash",), "Search", "Find words anywhere in this conversation.", _REPLAY, Scope.REPLAY,
            hint="search"),
    Command("replay.next_hit", ("n",), "Next hit", "To the next event in which it stands.", _REPLAY, Scope.REPLAY),
    Command("replay.prev_hit", ("N",), "Hit before", "To the event before in which it stands.", _REPLAY, Scope.REPLAY),
    Command("replay.mark", ("m",), "Mark", "Mark this event, or take its mark away.", _REPLAY, Scope.REPLAY,
            hint="mark"),
    Command("replay.next_mark", ("apostrophe",), "Next mark", "To the next event that you marked.", _REPLAY,
            Scope.REPLAY),
    Command("replay.goto", ("g",), "Go to event", "By its number.", _REPLAY, Scope.REPLAY),
    Command("replay.live", ("b",), "Back to the conversation", "Leave the replay for the conversation itself.",
            _REPLAY, Scope.REPLAY),
    Command("replay.fork", ("f",), "Fork from here", "Go on from this event, in a new conversation.", _REPLAY,
            Scope.REPLAY),
    Command("replay.open", (), "Replay", "Play this conversation from its beginning, in a tab of its own.", _CONV,
            leader="P", slash="replay"),
    Command("replay.help", ("question_mark",), "Help", "Show every key.", _REPLAY, Scope.REPLAY, hint="keys"),
    Command("list.help", ("question_mark",), "Help", "Show every key.", _LIST, Scope.LIST),
)  # fmt: skip
"""The table in English, with its default keys. Where a help names a command's key, it has the id in braces."""

KEYMAP = keymap.applied([row.translated() for row in ROWS], keymap.chosen())
"""The user's keys, and what is wrong with them."""
_GIVEN = {command.id: command for command in KEYMAP.commands}


def all_keys(command: Command) -> list[str]:
    """Every way to give a command by keys, as people write it; empty where the user took them all away."""
    keys = [show_key(key) for key in command.keys]
    leader = _GIVEN["app.leader"].keys
    return [*keys, f"{show_key(leader[0])} {command.leader}"] if command.leader and leader else keys


def key_of(id: str) -> str:
    """What gives a command, for a sentence that names it: a key, else its name behind a slash, else its title."""
    command = _GIVEN[id]
    named = f"/{command.slash}" if command.slash else f"“{command.title}”"
    return next(iter(all_keys(command)), named)


class _Keys(Formatter):
    """Fills places that are ids of commands with their keys."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if field_name in _GIVEN:
            return key_of(field_name), field_name
        return super().get_field(field_name, args, kwargs)


def keyed(text: str, **values: object) -> str:
    """A text of ours with the keys of the commands that it names, as `{conv.new}`, and values in its other places."""
    return _Keys().vformat(text, (), values)


COMMANDS = tuple(replace(command, help=keyed(command.help)) for command in KEYMAP.commands)
BY_ID = {command.id: command for command in COMMANDS}


def by_leader(key: str) -> tuple[Command, str] | None:
    """The command that a key after the leader means, with its argument (the digit of a tab, or "")."""
    if key.isdigit() and key != "0" and BY_ID["conv.goto"].leader:
        return BY_ID["conv.goto"], key
    for command in COMMANDS:
        if command.leader == key:
            return command, ""
    return None


def leader_commands() -> Iterator[Command]:
    """The commands that the leader reaches, in the table's order."""
    return (command for command in COMMANDS if command.leader)


WORKING = (
    (key_of("prompt.send"), _("says it now")),
    (key_of("prompt.queue"), _("queues it")),
    (key_of("app.back"), _("stops")),
)
"""What the prompt's keys do while the agent works: three things that must not be mistaken for one another."""


def hints(scope: Scope, *, working: bool = False) -> list[tuple[str, str]]:
    """(key, word) for the footer, those of the scope first; at most seven, because nobody reads more."""
    if working and scope is Scope.PROMPT:
        return list(WORKING)
    scopes = {scope, Scope.LIST} if scope in (Scope.CHAT, Scope.EVENTS) else {scope}
    named = [c for c in COMMANDS if c.hint and all_keys(c)]
    own = [c for c in named if c.scope in scopes and c.scope is not Scope.GLOBAL]
    shared = [c for c in named if c.scope is Scope.GLOBAL]
    return [(" ".join(keys) if (keys := all_keys(c)[:2]) == ["↑", "↓"] else keys[0], c.hint) for c in own + shared][:7]


def markdown() -> str:
    """The table of docs/shortcuts.md."""
    rows = ["| Keys | What | Where |", "|---|---|---|"]
    for command in COMMANDS:
        keys = " · ".join(f"`{key}`" for key in all_keys(command)).replace("|", "\\|")
        rows.append(f"| {keys} | **{command.title}.** {command.help} | {command.scope.words} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(markdown())  # noqa: T201 -- this is what the module does when it is run
