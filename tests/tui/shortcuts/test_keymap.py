"""Custom keys: valid rows, errors of invalid ones, and the effects of valid ones."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.program import ROOT
from tests.tui.workspace.screen_texts import all_texts
from tui.commands import ROWS, Command
from tui.shortcuts import shortcut_keys
from tui.shortcuts.keymap import MAX_BYTES, MAX_ROWS, Keymap, Wanted, applied, read


def mapped(**rows: object) -> Keymap:
    """The table with these rows; `__` in a name is a dot."""
    return applied(ROWS, Wanted({name.replace("__", "."): value for name, value in rows.items()}))


def given(found: Keymap) -> Mapping[str, tuple[tuple[str, ...], str]]:
    """The keys of the commands that have others than the table's."""
    return {c.id: (c.keys, c.leader) for c in found.commands if c.id in found.changed}


def command(found: Keymap, id: str) -> Command:
    return next(c for c in found.commands if c.id == id)


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("ctrl+e", "ctrl+e"),
        (" Ctrl + E ", "ctrl+e"),
        ("Control+PgDn", "ctrl+pagedown"),
        ("?", "question_mark"),
        ("ctrl++", "ctrl+plus"),
        ("shift+a", "A"),
        ("alt+N", "alt+shift+n"),
        ("Esc", "escape"),
        ("F5", "f5"),
        ("shift+ctrl+p", "ctrl+shift+p"),
        ("é", "é"),
        *(
            (wrong, None)
            for wrong in ("", "ctrl+", "hyper", "ctrl+ctrl+a", "f25", "ctrl+x n", "\x1b", "\u202ea", "x" * 99)
        ),
    ],
)
def test_written_key_becomes_textuals_name(written: str, key: str | None) -> None:
    assert shortcut_keys.named(written) == key


def test_shown_key_can_be_parsed_again() -> None:
    every = {key for row in ROWS for key in row.keys}
    assert {shortcut_keys.named(shortcut_keys.shown(key)) for key in every} == every


@pytest.mark.parametrize(
    "key", ["ctrl+shift+p", "shift+enter", "ctrl+enter", "super+a", "ctrl+9", "f13", "alt+question_mark"]
)
def test_keys_that_need_the_kitty_protocol_are_recognised(key: str) -> None:
    assert shortcut_keys.needs_protocol(key)


@pytest.mark.parametrize(
    "key", ["ctrl+e", "alt+n", "alt+shift+n", "shift+tab", "ctrl+shift+left", "shift+f5", "ctrl+underscore"]
)
def test_keys_that_every_terminal_sends_are_recognised(key: str) -> None:
    assert not shortcut_keys.needs_protocol(key)
    assert not shortcut_keys.refused(key)


# -- rows ------------------------------------------------------------------------------------------------------------


def test_row_replaces_all_keys_of_its_command() -> None:
    found = mapped(prompt__editor="ctrl+e", conv__new=["ctrl+y", "leader z"], app__theme=[], app__leader="ctrl+b")
    assert found.problems == ()
    assert given(found) == {
        "prompt.editor": (("ctrl+e",), ""),
        "conv.new": (("ctrl+y",), "z"),
        "app.theme": ((), ""),
        "app.leader": (("ctrl+b",), ""),
    }


def test_two_commands_can_swap_keys() -> None:
    found = mapped(conv__new=["ctrl+s", "leader l"], conv__manager=["ctrl+n", "leader n"])
    assert (found.problems, found.changed) == ((), frozenset({"conv.new", "conv.manager"}))


def test_enter_inserts_a_new_line_if_another_key_sends() -> None:
    found = mapped(prompt__send="alt+s", prompt__newline=["enter", "ctrl+j"])
    assert (found.problems, found.changed) == ((), frozenset({"prompt.send", "prompt.newline"}))


@pytest.mark.parametrize(
    ("id", "value", "told"),
    [
        ("conv.nwe", "f7", "Did you mean conv.new?"),
        ("\x1b]0;x\x07", "f7", "unknown command"),
        ("conv.new", 5, "or a list of keys"),
        ("conv.new", ["f7", 5], "or a list of keys"),
        ("conv.new", {"a": {"b": {}}}, "unknown command"),
        ("conv.new", ["f7"] * 9, "at most 8 keys"),
        ("conv.new", "hyperspace", "there is no key “hyperspace”"),
        ("conv.new", "\x1b[31mred\x07", "there is no key"),
        ("conv.new", "ctrl+i", "terminals send ctrl+i as Tab"),
        ("conv.new", "ctrl+m", "terminals send ctrl+m as Enter"),
        ("conv.new", "ctrl+[", "terminals send ctrl+[ as Esc"),
        ("conv.new", "ctrl+h", "as Backspace"),
        ("conv.new", "alt+1", "use alt+1 themselves"),
        ("tasks.toggle", "shift+enter", "shift+Enter is"),
        ("pane.next", "ctrl+shift+t", "few terminals send ctrl+shift+t"),
        ("conv.new", "x", "x is needed for typing"),
        ("conv.new", "enter", "Enter is needed for typing"),
        ("prompt.editor", "?", "? is needed for typing"),
        ("find.read", "space", "space is needed for typing"),
        ("conv.new", "f2", "F2 is already used by pane.chat (Chat)"),
        ("prompt.editor", "ctrl+p", "ctrl+p is already used by app.palette"),
        ("chat.copy", "y", "y is already used by chat.copy_code"),
        ("list.up", "c", "c is already used by chat.copy"),
        ("conv.new", "leader t", "leader t is already used by app.theme"),
        ("conv.new", "leader 3", "leader 3 is already used by conv.goto"),
        ("conv.goto", "leader 3", 'write "leader 1-9"'),
        ("conv.new", "leader ctrl+n", "comes one character"),
        ("conv.new", ["leader Z", "leader z"], "only one key after the leader"),
        ("chat.copy", "leader z", "only commands that work everywhere"),
        ("prompt.file", "&", "a typed character"),
        ("replay.part", "a", "keys are fixed"),
        ("question.take", "y", "keys are fixed"),
        ("app.back", [], "it needs a key"),
    ],
)
def test_wrong_row_is_reported_once_and_the_others_apply(id: str, value: object, told: str) -> None:
    found = applied(ROWS, Wanted({id: value, "prompt.editor" if id != "prompt.editor" else "app.redraw": "ctrl+e"}))
    if isinstance(value, dict):
        found = applied(ROWS, Wanted({"conv.new.a": value}))
    (problem,) = found.problems
    assert told in problem
    assert problem.isprintable()
    assert id not in found.changed
    assert isinstance(value, dict) or len(found.changed) == 1


@pytest.mark.parametrize(
    ("id", "value"),
    [
        ("pane.next", ["ctrl+shift+t", "f7"]),
        ("conv.new", "ctrl+shift+t"),
        ("app.redraw", ["ctrl+shift+t"]),
        ("pane.next", ["ctrl+shift+t", "leader Z"]),
    ],
)
def test_key_that_few_terminals_send_is_accepted_beside_another(id: str, value: object) -> None:
    found = applied(ROWS, Wanted({id: value}))
    assert found.problems == ()
    assert "ctrl+shift+t" in command(found, id).keys


def test_later_of_two_conflicting_rows_is_ignored() -> None:
    found = mapped(conv__new="f7", app__redraw="f8", tasks__toggle="f7")
    assert found.changed == {"conv.new", "app.redraw"}
    assert [p for p in found.problems if "F7 is already used by conv.new" in p] == list(found.problems)


def test_ignored_row_causes_rows_with_its_default_key_to_be_ignored() -> None:
    found = mapped(conv__new="ctrl+i", tasks__toggle="ctrl+n")
    assert (len(found.problems), found.changed) == (2, frozenset())


def test_last_key_to_quit_cannot_be_removed() -> None:
    assert mapped(app__quit=[], prompt__quit=[]).problems == ()
    found = mapped(app__quit=[], prompt__quit=[], app__interrupt=[])
    assert "no key would be left to quit with" in found.problems[0]
    assert command(found, "app.interrupt").keys == ("ctrl+c",)
    assert command(found, "app.quit").keys == ()


# -- the file --------------------------------------------------------------------------------------------------------


def test_rows_are_read_with_their_line_numbers(tmp_path: Path) -> None:
    text = 'model = "m"\n[keys]\nprompt.editor = "ctrl+e"\n"conv.nwe" = ["f7"]\n[keys.app]\nquit = "x"\n[llm]\na = 1\n'
    tmp_path.joinpath("config.toml").write_text(text)
    wanted = read(tmp_path, {"HANDLOOM__KEYS__CONV__NEW": "f7, leader z"})
    assert wanted == Wanted(
        {"prompt.editor": "ctrl+e", "conv.nwe": ["f7"], "app.quit": "x", "conv.new": ["f7", "leader z"]},
        (),
        {"prompt.editor": 3, "conv.nwe": 4, "app.quit": 6},
    )
    assert [problem.partition("): ")[0] for problem in applied(ROWS, wanted).problems] == [
        "Keys: conv.nwe (line 4 of config.toml",
        "Keys: app.quit (line 6 of config.toml",
    ]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", 0),
        ("keys = 5\n", 1),
        ("[keys\n", 0),  # the settings say so
        ("[keys]\n" + "".join(f'"a{n}" = "f7"\n' for n in range(3 * MAX_ROWS)), MAX_ROWS + 1),
        ("#" * MAX_BYTES + "#", 1),
        ('[keys]\n"' + "a" * 5000 + '" = "' + "b" * 5000 + '"\n', 1),
        ("[keys]\n" + ".".join("abcdefgh") + ' = "f7"\n', 1),
    ],
)
def test_hostile_key_files_never_stop_the_start(tmp_path: Path, text: str, problems: int) -> None:
    tmp_path.joinpath("config.toml").write_text(text)
    found = applied(ROWS, read(tmp_path, {}))
    assert len(found.problems) == problems
    assert found.commands == ROWS
    assert all(len(problem) < 400 for problem in found.problems)


# -- the app ---------------------------------------------------------------------------------------------------------

REMAPPED = """
import asyncio
from tui.shortcuts import keymap
keymap.use(keymap.Wanted({
    "app.help": ["f9", "leader h"], "app.leader": "ctrl+b", "app.quit": "alt+q", "conv.goto": [], "find": "f1",
    "prompt.send": "alt+s", "prompt.newline": ["enter", "ctrl+j"], "conv.nwe": "f7",
}))
from tests.tui.workspace.running_app import running
from tui.commands import Scope, hints, keyed
from tui.shortcuts.help_screen import HelpScreen, help_columns
from tui.palette.screen import _row
from tui.commands import BY_ID

async def main():
    async with running() as it:
        assert "Keys: conv.nwe" in str(it.app.workspace.notice.render()), "told at the start"
        assert "F9 help" in it.screen_text(), it.screen_text()
        await it.press("a", "enter", "b")
        assert it.app.workspace.prompt.text == "a\\nb", it.app.workspace.prompt.text
        await it.press("alt+s")
        assert it.app.workspace.prompt.text == "" and it.session.wishes == [("send", "a\\nb")], it.session.wishes
        await it.press("ctrl+q")
        assert it.app.is_running and it.shows_the_workspace, "Textual's own way out is none"
        await it.press("ctrl+x")
        assert not it.app.leader.is_armed
        await it.press("ctrl+b")
        assert it.app.leader.is_armed
        await it.press("1")
        assert "ctrl+b 1 is not a command; F9 shows" in it.screen_text(), it.screen_text()
        await it.press("f1")
        assert it.shows_the_workspace, "the default key of help"
        await it.press("escape")
        await it.press("f9")
        assert isinstance(it.app.screen, HelpScreen)
        await it.press("f", "9")
        assert "F9, ctrl+b h" in it.screen_text(), it.screen_text()

asyncio.run(main())
assert ("F9", "help") in hints(Scope.PROMPT)
assert _row(BY_ID["app.help"]).right == "F9  ctrl+b h", _row(BY_ID["app.help"])
assert keyed("{conv.goto} {app.keys}") == "“Go to tab” /keys"
"""


def test_remapped_key_runs_its_command_and_is_shown_everywhere() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REMAPPED], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


# -- texts -----------------------------------------------------------------------------------------------------------

OF_ITS_OWN = {
    "ctrl+s approves · Esc cancels",  # the screen of a plan, not the workspace
    "Move with ↑ ↓ or a number. Enter chooses. Esc goes to the workspace without a model. ctrl+q quits.",
    "Type in the agent's terminal while it waits; the same key, or ctrl+], returns control.",
    ("Type a message and press Enter. Ctrl+C stops the agent, Ctrl+D quits. End a line with \\ to continue it."),
    "Nothing is running. Ctrl+D quits.",
    "Waiting for an editor on standard input. Ctrl+C quits.",
    "type to search · ↑ ↓ scroll · ctrl+o your own keys · Esc closes",
    "search all text, or return to the list",
    "Press keys. ctrl+c twice, or Esc twice, ends this.",
}
"""Texts of places that have their own keys, which are no commands of the table."""


def test_texts_insert_keys_from_the_table() -> None:
    written = re.compile(r"(?i)\bctrl\+(?!\w*enter)\S|\bF[1-9][0-2]?\b")
    assert {text for text in all_texts() if written.search(re.sub(r'"[^"]*"', "", text))} - OF_ITS_OWN == set()
    core = [path for path in (ROOT / "core").rglob("*.py") if written.search(path.read_text("utf-8"))]
    assert core == [], "core knows no keys"
