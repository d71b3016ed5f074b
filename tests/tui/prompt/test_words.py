"""The parts of the prompt that are only text: triggers, the past, chips, slash commands, references."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.events import (
    AgentStateChangedObservation,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    MessageAction,
)
from tui.commands import COMMANDS
from tui.prompt import attachments, slash_commands
from tui.prompt.attachments import Chips, Picture, is_long
from tui.prompt.completion import Kind, Trigger, trigger_at
from tui.prompt.history_search import merge_history, search_history

# -- triggers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@", Trigger(Kind.FILE, "", 0, 0)),
        ("see @src/ma", Trigger(Kind.FILE, "src/ma", 0, 4)),
        ('see @"a fi', Trigger(Kind.FILE, "a fi", 0, 4)),
        ("me@home", None),
        ("see @done ", None),
        ("#", Trigger(Kind.EVENT, "", 0, 0)),
        ("as in (#12", Trigger(Kind.EVENT, "12", 0, 7)),
        ("c#", None),
        ("## Title", None),
        ("/", Trigger(Kind.COMMAND, "", 0, 0)),
        ("/he", Trigger(Kind.COMMAND, "he", 0, 0)),
        ("//", None),
        ("/etc/passwd", None),
        ("say /he", None),
        ("!cat @fi", Trigger(Kind.FILE, "fi", 0, 5)),
        ("!ls # all", None),
        ("!ls #", None),
    ],
)
def test_trigger_at_the_cursor_is_found(text: str, expected: Trigger | None) -> None:
    assert trigger_at(text, text, 0, len(text)) == expected


def test_trigger_uses_the_text_before_the_cursor_and_commands_the_first_line() -> None:
    assert trigger_at("@one two", "@one two", 0, 4) == Trigger(Kind.FILE, "one", 0, 0)
    assert trigger_at("first", "/he", 1, 3) is None
    assert trigger_at("x", "x" * 5000 + " @f", 1, 5003) == Trigger(Kind.FILE, "f", 1, 5001)


# -- the past ----------------------------------------------------------------------------------------------------------


def test_history_of_earlier_sessions_comes_first_without_duplicates() -> None:
    assert merge_history(["new", "here", "old", "new", " "], ["here", "now"]) == ["old", "new", "here", "now"]


def test_history_search_is_newest_first_and_case_sensitive_for_capitals() -> None:
    sent = ["Fix it", "run the tests", "fix the Parser", "run the tests"]
    assert search_history(sent, "") == ["run the tests", "fix the Parser", "Fix it"]
    assert search_history(sent, "fix") == ["fix the Parser", "Fix it"]
    assert search_history(sent, "Fix") == ["Fix it"]


# -- chips -------------------------------------------------------------------------------------------------------------


def test_paste_is_long_by_lines_or_characters() -> None:
    assert not is_long("x\n" * 9)
    assert is_long("x\n" * 10)
    assert not is_long("x" * 1000)
    assert is_long("x" * 1001)


def test_token_expands_to_its_text() -> None:
    chips = Chips()
    one, two = chips.paste("a\nb\n"), chips.paste("x" * 1200)
    assert (one, two) == ("[pasted 2 lines #1]", "[pasted 1,200 characters #2]")
    assert chips.expanded(f"see {one} and {two}") == "see a\nb\n and " + "x" * 1200
    assert chips.expanded("[pasted 2 lines #9]") == "[pasted 2 lines #9]", "nobody knows this one"
    assert chips.spans(f"é {one}!") == [(2, 2 + len(one))]
    assert chips.without_tokens(f"#3 {one}") == "#3 "


def test_tokens_in_a_pasted_text_are_not_expanded() -> None:
    chips = Chips()
    inner = chips.paste("secret\nlines")
    outer = chips.paste(f"{inner}\nmore")
    assert chips.expanded(outer) == f"{inner}\nmore"


def test_pictures_are_sent_once_in_order_and_dropped_afterwards() -> None:
    chips = Chips()
    one, two = Picture("data:1", 3, 2), Picture("data:2", 4, 4)
    first, second = chips.attach(one), chips.attach(two)
    text = f"{second} then {first} then {second}"
    assert first == "[image 3x2 #1]"
    assert chips.pictures(text) == [two, one]
    assert chips.expanded(text) == text
    chips.drop_pictures(text)
    assert chips.pictures(text) == []


def test_chips_drop_the_oldest_content_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.prompt.attachments.HELD_CHARS", 100)
    chips = Chips()
    old, new = chips.paste("a\n" * 30), chips.paste("b\n" * 30)
    assert chips.expanded(old) == old
    assert chips.expanded(new) == "b\n" * 30


# -- slash commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", slash_commands.Line("help", "")),
        ("/review a.py  b.py", slash_commands.Line("review", "a.py  b.py")),
        ("/review\na.py", slash_commands.Line("review", "a.py")),
        ("/", slash_commands.Line("", "")),
        ("//help", None),
        ("/etc/passwd is odd", None),
        ("help", None),
        (" /help", None),
        ("/ help", None),
    ],
)
def test_slash_command_is_parsed(text: str, expected: slash_commands.Line | None) -> None:
    assert slash_commands.parse(text) == expected


def test_slash_names_are_unique_and_can_be_typed() -> None:
    names = [name for command in COMMANDS for name in (command.slash, *command.aliases) if name]
    assert len(names) == len(set(names)) == len(slash_commands.BUILT_IN)
    assert all(name.isascii() and name.islower() and name.isalpha() for name in names)
    assert {"help", "model", "theme", "new", "sessions", "quit"} <= set(names)
    assert {"compact", "clear", "resume", "cost", "login", "diff", "exit", "rewind"} <= set(names), "as elsewhere"


def write(home: Path, name: str, text: str) -> None:
    (home / "commands").mkdir(exist_ok=True)
    (home / "commands" / name).write_text(text)


def test_own_commands_are_files_with_or_without_front_matter(tmp_path: Path) -> None:
    write(tmp_path, "review.md", "---\ndescription: Look at it\nargument-hint: FILE\n---\nReview $1.\n")
    write(tmp_path, "ship.md", "Ship it.")
    write(tmp_path, "notes.txt", "no command")
    found, problems = slash_commands.load(tmp_path)
    assert problems == []
    assert found == {
        "init": slash_commands.SHIPPED["init"],
        "review": slash_commands.UserCommand("review", "Review $1.", "Look at it", "FILE"),
        "ship": slash_commands.UserCommand("ship", "Ship it."),
    }
    assert slash_commands.load(tmp_path / "nowhere") == (slash_commands.SHIPPED, [])


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("Review.md", "x", "lowercase letters"),
        ("help.md", "x", "/help is a built-in command"),
        ("empty.md", "---\ndescription: d\n---\n", "it is empty"),
        ("broken.md", "---\n: [\n---\nx", "not YAML"),
        ("odd.md", "---\n- a\n---\nx", "consists of lines like"),
        ("large.md", "x" * (slash_commands.MAX_BYTES + 1), "larger than"),
    ],
)
def test_wrong_command_file_is_reported_and_the_others_are_loaded(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    write(tmp_path, name, text)
    write(tmp_path, "good.md", "Good.")
    found, problems = slash_commands.load(tmp_path)
    assert list(found) == [*slash_commands.SHIPPED, "good"]
    assert name in problems[0]
    assert why in problems[0]


@pytest.mark.parametrize(
    ("body", "words", "message"),
    [
        ("Review $1 like $2.", "a.py 'the boss'", "Review a.py like the boss."),
        ("Do: $ARGUMENTS", "this and that", "Do: this and that"),
        ("$1 and $3", "one", "one and "),
        ("No place.", "words", "No place.\n\nwords"),
        ("No place.", "", "No place."),
        ("$10 and $1", "x", "$10 and x"),
        ("$1", "it's", "it's"),
        ("$1", "$ARGUMENTS", "$ARGUMENTS"),
    ],
)
def test_arguments_replace_the_placeholders(body: str, words: str, message: str) -> None:
    assert slash_commands.UserCommand("c", body).message(words) == message


# -- references --------------------------------------------------------------------------------------------------------


def envelope(number: int, event: Event, source: EventSource = EventSource.AGENT) -> Envelope:
    return Envelope(
        conversation_id="c", id=number, timestamp=datetime(2026, 1, 1, tzinfo=UTC), source=source, cause=None,
        event=event,
    )  # fmt: skip


def test_referenced_ids_of_a_text_are_found() -> None:
    assert attachments.referenced_ids("like #3, not (#12) or #3; c#4 #5x ##6 a#7") == [3, 12]
    assert len(attachments.referenced_ids(" ".join(f"#{n}" for n in range(50)))) == attachments.MAX_REFERENCES


def test_excerpt_of_an_event_is_quoted_and_bounded() -> None:
    run = envelope(7, CmdRunAction(command="make all"))
    assert attachments.event_excerpt(run) == "Event #7 (run, by the agent):\n> Running command: make all"
    result = envelope(8, CmdOutputObservation(command="make", content="line\n" * 5000))
    text = attachments.reference_context([run, result])
    assert text.startswith(attachments.INTRODUCTION)
    assert "Event #8 (result of run, by the agent):\n> line\n" in text
    assert len(text) < 4 * attachments.EXCERPT_CHARS
    assert attachments.reference_context([]) == ""


def test_candidates_are_newest_first_without_internal_events() -> None:
    page = [
        envelope(0, MessageAction(content="hello")),
        envelope(1, AgentStateChangedObservation(agent_state="running")),
        envelope(2, CmdRunAction(command="ls", hidden=True)),
        envelope(3, CmdRunAction(command="ls")),
    ]
    assert [e.id for e in attachments.reference_candidates(page)] == [3, 0]


@pytest.mark.parametrize(("query", "is_meant"), [("", True), ("1", True), ("12", True), ("2", False), ("RUN", True),
                                                 ("make", True), ("cake", False)])  # fmt: skip
def test_event_matches_a_query(query: str, is_meant: bool) -> None:
    assert attachments.reference_matches(envelope(12, CmdRunAction(command="make all")), query) is is_meant
