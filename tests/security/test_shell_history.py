"""The known state of a conversation's shell, folded over its log, with limits and merging."""

from __future__ import annotations

from datetime import UTC, datetime

from core.events import (
    Action,
    ActionSecurityRisk,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MessageAction,
    Observation,
    UserRejectObservation,
)
from core.security.facts import facts_of
from core.security.risk_checks import ShellHistory, shell_after
from core.security.shell.shell_state import MAX_FOLDERS, MAX_VALUE_CHARS, MAX_VARIABLES, MAX_WRITTEN, Shell

AT = datetime(2026, 1, 1, tzinfo=UTC)


def shells(*events: tuple[Action | Observation, int | None]) -> ShellHistory:
    found = ShellHistory("/w", Shell(("/w",)))
    for id, (event, cause) in enumerate(events):
        found = found.after(
            Envelope(conversation_id="c", id=id, timestamp=AT, source=EventSource.AGENT, event=event, cause=cause)
        )
    return found


def ended(exit_code: int = 0, folder: str = "") -> CmdOutputObservation:
    metadata = CmdOutputMetadata(exit_code=exit_code, working_dir=folder or None)
    return CmdOutputObservation(command="", content="", metadata=metadata)


CD, SET = CmdRunAction(command="cd src"), CmdRunAction(command="x=a")


def test_command_counts_when_logged() -> None:
    assert shells((MessageAction(content="cd src"), None)).shell == Shell(("/w",))
    begun = shells((CD, None))
    assert begun.shell.folders == ("/w/src", "/w")
    assert begun.before(CD) == Shell(("/w",)), "it waits, so it is judged from what was before it"
    assert begun.before(SET) == begun.shell
    done = shells((CD, None), (ended(0, "/w/src"), 0))
    assert (done.shell.folders, done.waiting) == (("/w/src",), ())
    assert shells((CD, None), (ended(0, "/w/src"), 7)).shell == begun.shell, "an answer to another action"
    assert shells((CD, None), (ended(0, "/w/src"), None)).shell == begun.shell


def test_rejected_command_has_no_effect() -> None:
    for answer in (UserRejectObservation(content="no"), ErrorObservation(content="failed")):
        assert shells((CD, None), (answer, 0)).shell == Shell(("/w",))
        both = shells((CD, None), (SET, None), (answer, 0))
        assert both.shell.folders == ("/w/src", "/w"), "another one waits, that began behind it"
        assert [waiting.event for waiting in both.waiting] == [1]


def test_cells_are_understood_only_until_one_is_not() -> None:
    known, opaque = (
        IPythonRunCellAction(code="print(len('abc'))"),
        IPythonRunCellAction(code="len = __import__('os').system"),
    )
    ran = IPythonRunCellObservation(code="", content="")

    def risk_after(*events: tuple[Action | Observation, int | None]) -> ActionSecurityRisk:
        return facts_of(known, workspace="/w", shell=shells(*events).before(known)).risk

    assert risk_after((known, None), (ran, 0)) is ActionSecurityRisk.LOW
    assert risk_after((opaque, None), (ran, 0)) is ActionSecurityRisk.UNKNOWN
    assert risk_after((opaque, None)) is ActionSecurityRisk.UNKNOWN, "it may be running"
    assert risk_after((opaque, None), (UserRejectObservation(content="no"), 0)) is ActionSecurityRisk.LOW
    assert risk_after((opaque, None), (ran, 0), (known, None), (ran, 2)) is ActionSecurityRisk.UNKNOWN
    assert facts_of(CD, workspace="/w", shell=shells((opaque, None), (ran, 0)).shell).risk is ActionSecurityRisk.LOW


def test_static_command_has_no_effect() -> None:
    static = CmdRunAction(command="cd src", is_static=True)
    assert shell_after(static, "/w", Shell(("/w",))) == Shell(("/w",))
    assert shell_after(CD, "/w", Shell(("/w",))).folders == ("/w/src", "/w")


def test_shell_state_is_limited() -> None:
    shell = Shell(("/w",))
    four = [f"/{n}" for n in range(MAX_FOLDERS)]
    assert shell.at([*four, "/0"]).folders == tuple(four)
    assert shell.at([*four, "/x"]).folders == ()
    assert shell.with_variable("a", "x" * MAX_VALUE_CHARS).variables == {"a": "x" * MAX_VALUE_CHARS}
    assert shell.with_variable("a", "x" * (MAX_VALUE_CHARS + 1)).variables == {"a": None}
    for n in range(MAX_VARIABLES):
        shell = shell.with_variable(f"v{n}", "x")
    assert (shell.lost, shell.with_variable("v0", "y").variables["v0"]) == ("", "y")
    more = shell.with_variable("one_more", "x")
    assert (more.lost, len(more.variables)) == (f"{MAX_VARIABLES} variables", MAX_VARIABLES)
    lost = Shell(lost="eval")
    for n in range(MAX_WRITTEN):
        lost = lost.with_written(f"/w/{n}")
    assert len(lost.written) == MAX_WRITTEN
    assert lost.with_written("/w/0") is lost
    assert (lost.with_written("/w/x").lost, len(lost.with_written("/w/x").written)) == ("eval", MAX_WRITTEN)
    full = Shell(written=lost.written).with_written("/w/x")
    assert full.lost == f"{MAX_WRITTEN:,} files that were written"


def test_shells_are_merged() -> None:
    one = Shell(("/a",), {"x": "1", "y": "1"}, "", frozenset({"/f"}), frozenset({"/l"}))
    other = Shell(("/b",), {"x": "1", "z": "2"}, "E=1", frozenset({"/g"}), frozenset(), "eval")
    assert one.merged(one) is one
    assert one.merged(other) == Shell(
        ("/a", "/b"),
        {"x": "1", "y": None, "z": None},
        "E=1",
        frozenset({"/f", "/g"}),
        frozenset({"/l"}),
        "eval",
    )
    assert one.merged(Shell(variables={"x": "1", "y": "1"})).folders == ()
    assert Shell().merged(one).folders == ()
    assert one.after_subshell(other) == Shell(
        ("/a",), {"x": "1", "y": "1"}, "", frozenset({"/f", "/g"}), frozenset({"/l"})
    )


def test_links_and_written_code_are_tracked() -> None:
    shell = Shell().with_link("/w/l").with_written("/w/a.log", "/w/b.CSV")
    assert [shell.leads_through_link(path) for path in ("/w/l", "/w/l/x", "/w/lx", "/w")] == [True, True, False, False]
    assert [shell.wrote(path) for path in ("/w/l/x", "/w/a.log", "/w/c")] == [True, True, False]
    assert shell.may_have_written_code, "a link may be"
    assert not Shell().with_written("/w/a.log", "/w/b.CSV").may_have_written_code
    assert Shell().with_written("/w/a.log", "/w/a.txt").may_have_written_code
