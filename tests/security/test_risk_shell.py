"""The verdicts of the command corpora, and no wrapping or encoding that lets a bad command through."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.events import ActionSecurityRisk, CmdRunAction
from core.security.facts import Facts, facts_of
from core.security.risk_rules import RULES
from core.security.shell.parser import MAX_CHARS
from tests.security.risk_wrapping import WORKSPACE, WRAPPINGS, Row, corpus, mutated

BAD, GOOD = corpus("bad"), corpus("good")
ASKS = {ActionSecurityRisk.UNKNOWN, ActionSecurityRisk.HIGH}
COMMANDS = [row.command for row in (*BAD, *GOOD)]


def read(command: str) -> Facts:
    return facts_of(CmdRunAction(command=command), workspace=WORKSPACE)


def failed(facts: Facts) -> bool:
    return any("reading it failed" in part for part in facts.not_understood)


def test_corpora_are_large_without_duplicates() -> None:
    assert len(BAD) >= 200
    assert len(GOOD) >= 200
    assert len(set(COMMANDS)) == len(COMMANDS)


@pytest.mark.parametrize("command", ["rm -rf /tmp", "rm -rf /tmp/*"])
def test_folder_above_a_workspace_in_the_temporary_folder_is_not_deleted_unseen(command: str) -> None:
    facts = facts_of(CmdRunAction(command=command), workspace="/tmp/w")
    assert "destroy.root" in facts.rules


@pytest.mark.parametrize("row", [*BAD, *GOOD], ids=lambda row: f"{row.rule or 'none'}:{row.command[:40]}")
def test_each_corpus_command_has_its_verdict(row: Row) -> None:
    facts = read(row.command)
    assert (facts.risk.name, row.rule in (*facts.rules, "")) == (row.risk, True), facts.rules


def test_every_rule_named_in_a_corpus_is_in_the_table() -> None:
    assert {row.rule for row in (*BAD, *GOOD)} - {""} <= RULES.keys()


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_no_wrapping_lets_bad_commands_through(wrapping: str) -> None:
    for row in BAD[::5]:
        assert read(WRAPPINGS[wrapping](row.command)).risk in ASKS, row


@settings(max_examples=150, deadline=None)
@given(row=st.sampled_from(BAD), names=st.lists(st.sampled_from(sorted(WRAPPINGS)), min_size=1, max_size=3))
def test_no_nested_wrapping_lets_bad_commands_through(row: Row, names: list[str]) -> None:
    command = row.command
    for name in names:
        command = WRAPPINGS[name](command)
    facts = read(command)
    assert facts.risk in ASKS, (names, command, facts.rules)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_commands_are_analysed_in_time(seed: int) -> None:
    started = time.process_time()
    for command in mutated(COMMANDS, 700, seed):
        assert not failed(read(command)), command
    assert time.process_time() - started < 30, "some milliseconds each"


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert not failed(read(text))


@pytest.mark.parametrize(
    "command",
    [
        "echo " + "a " * MAX_CHARS,
        "(" * 400 + "ls" + ")" * 400,
        "$(" * 300 + "ls" + ")" * 300,
        'eval "' * 50 + "ls",
        "f() { f; f; }; f",
        "a() { b; b; b; }; b() { c; c; c; }; c() { d; d; d; }; d() { a; a; a; }; a",
        "ls; " * 5_000,
        "for a in {1..9}; do for b in {1..9}; do for c in {1..9}; do for d in {1..9}; do ls; done; done; done; done",
    ],
    ids=lambda command: command[:20],
)
def test_too_large_command_is_not_understood_and_fast(command: str) -> None:
    started = time.process_time()
    facts = read(command)
    assert time.process_time() - started < 5
    assert facts.opaque or command.startswith("for")
    assert not failed(facts)


def test_text_beyond_a_limit_is_never_safe() -> None:
    facts = read("echo " + "a" * MAX_CHARS + "; rm -rf /")
    assert facts.risk is ActionSecurityRisk.UNKNOWN
    assert facts.opaque


def test_wrappers_are_listed_with_their_command() -> None:
    commands = read("sudo env CI=1 timeout 5 xargs -n1 rm notes.txt").commands
    assert [command.split()[0] for command in commands] == ["sudo", "env", "timeout", "xargs", "rm"]


def test_paths_are_relative_to_the_folder_of_cd() -> None:
    facts = read("cd src && cat main.py > ../out.txt; cd /etc; cat hosts")
    assert "/etc/hosts" in facts.reads
    assert facts.writes == ("/workspace/app/out.txt",)


def test_cd_in_a_subshell_has_no_effect_outside() -> None:
    assert read("(cd /etc); cat hosts").reads == ("/workspace/app/hosts",)


def test_unknown_folder_makes_paths_unknown() -> None:
    facts = read('cd "$SOMEWHERE"; echo x > notes.txt')
    assert (facts.writes, facts.not_understood) == ((), ("notes.txt (the current folder is unknown)",))
    assert facts.risk is ActionSecurityRisk.UNKNOWN


def test_cd_may_fail() -> None:
    assert read("cd src && cat main.py").reads == ("/workspace/app/src/main.py",)
    assert read("cd src; cat main.py").reads == ("/workspace/app/src/main.py", "/workspace/app/main.py")
    assert read("cd src || true; cat main.py").reads == ("/workspace/app/src/main.py", "/workspace/app/main.py")


def test_hosts_do_not_include_this_machine() -> None:
    facts = read("curl https://A.Example./x http://localhost:1/ ; git clone git@c.example:x/y")
    assert facts.hosts == ("a.example", "c.example")
    assert facts.sends


def test_reason_has_rule_and_quote() -> None:
    facts = read("rm -rf ~/notes")
    assert facts.reasons == ("It deletes files outside the workspace: ~/notes (destroy.outside).",)


def test_typical_command_is_analysed_in_milliseconds() -> None:
    read("ls")
    took = []
    for row in GOOD:
        started = time.process_time()
        read(row.command)
        took.append(time.process_time() - started)
    assert sorted(took)[len(took) // 2] < 0.005
