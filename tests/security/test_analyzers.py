"""Risk analyzers: Handloom's own, those of other packages, and policies about sequences."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce

import pytest

from core.errors import ConfigurationError
from core.events import (
    Action,
    ActionSecurityRisk,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    MCPAction,
    MessageAction,
    UserRejectObservation,
)
from core.security.analyzers import (
    MAX_CHARS,
    MAX_PAST,
    MAX_REASONS,
    OURS,
    Analyzer,
    Assessment,
    History,
    Past,
    analyzers,
    assess,
)
from core.security.analyzers.invariant import MAX_POLICIES, Invariant, read_policies, shipped
from core.security.facts import Facts, facts_of
from core.security.risk_rules import RULES

WORKSPACE = "/workspace/app"
LOW, MEDIUM, HIGH, UNKNOWN = (ActionSecurityRisk[name] for name in ("LOW", "MEDIUM", "HIGH", "UNKNOWN"))


class Voice:
    """Returns a fixed rating, or fails, or never answers."""

    def __init__(self, says: object, name: str = "voice") -> None:
        self.name, self._says = name, says

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment | None:
        if isinstance(self._says, Exception):
            raise self._says
        if self._says == "never":
            await asyncio.Event().wait()
        return self._says  # type: ignore[return-value]


def run(*commands: str, refused: Sequence[str] = ()) -> History:
    log: list[Envelope] = []
    for command in commands:
        action = CmdRunAction(command=command)
        answer = (
            UserRejectObservation(content="No.")
            if command in refused
            else CmdOutputObservation(content="", command=command)
        )
        for event, source, cause in ((action, EventSource.AGENT, None), (answer, EventSource.ENVIRONMENT, len(log))):
            log.append(
                Envelope(
                    conversation_id="c",
                    id=len(log),
                    timestamp=datetime(2026, 1, 1, tzinfo=UTC),
                    source=source,
                    cause=cause,
                    event=event,
                )
            )
    return reduce(History.after, log, History(WORKSPACE))


async def judged(
    action: Action, history: History | None = None, *voices: Analyzer, timeout_s: float = 2.0
) -> Assessment:
    done = history.done if history else ()
    return await assess(voices or analyzers(), action, facts_of(action, workspace=WORKSPACE), done, timeout_s=timeout_s)


@pytest.mark.parametrize(("rated", "command", "risk"), [
    (LOW, "rm -rf /", HIGH),
    (UNKNOWN, "rm -rf /", HIGH),
    (UNKNOWN, "ls", LOW),
    (LOW, "ls", LOW),
    (MEDIUM, "ls", MEDIUM),
    (HIGH, "ls", HIGH),
    (MEDIUM, "frobnicate", UNKNOWN),
])  # fmt: skip
async def test_model_only_raises_the_risk(rated: ActionSecurityRisk, command: str, risk: ActionSecurityRisk) -> None:
    assert (await judged(CmdRunAction(command=command, security_risk=rated))).risk is risk


async def test_strictest_assessment_counts() -> None:
    said = await judged(
        CmdRunAction(command="ls"),
        None,
        Voice(Assessment(LOW, ("calm",))),
        Voice(Assessment(HIGH, ("loud",))),
        Voice(None),
    )
    assert said == Assessment(HIGH, ("loud", "calm"))


async def test_failing_analyzer_counts_as_unknown() -> None:
    said = await judged(CmdRunAction(command="ls"), None, Voice(RuntimeError("broken"), "bad"), Voice(Assessment(LOW)))
    assert said == Assessment(UNKNOWN, ("The analyzer bad failed: RuntimeError: broken",))


async def test_slow_analyzer_counts_as_unknown() -> None:
    said = await judged(
        CmdRunAction(command="ls"), None, Voice("never", "slow"), Voice(Assessment(LOW)), timeout_s=0.05
    )
    assert said == Assessment(UNKNOWN, ("The analyzer slow took longer than 0.05 s.",))


async def test_wrong_answer_counts_as_unknown() -> None:
    assert (await judged(CmdRunAction(command="ls"), None, Voice("HIGH"))).risk is UNKNOWN


async def test_cancelling_cancels_all() -> None:
    waiting = asyncio.create_task(judged(CmdRunAction(command="ls"), None, Voice("never"), timeout_s=60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_unknown_analyzer_error_lists_the_known() -> None:
    with pytest.raises(ConfigurationError, match=r"no analyzer .cloud..*invariant, local, model"):
        analyzers(["local", "cloud"])


def test_analyzer_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("sample", "tests.security.test_analyzers:sample", "handloom.analyzers")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry] if group == entry.group else [])
    assert [voice.name for voice in analyzers(["sample", "local"])] == ["sample", "local"]


def sample() -> Analyzer:
    return Voice(None, "sample")


def test_analyzer_that_cannot_be_loaded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("sample", "tests.nowhere:sample", "handloom.analyzers")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    with pytest.raises(ConfigurationError, match="'sample' cannot be started: ModuleNotFoundError"):
        analyzers(["sample"])


async def test_reading_secrets_then_sending_is_high() -> None:
    quiet = CmdRunAction(command="curl https://a.example/x")
    assert (await judged(quiet)).risk is MEDIUM
    said = await judged(quiet, run("ls", "cat .env"))
    assert said.risk is HIGH
    assert said.reasons[0] == (
        "Secrets were read earlier, and this could send them out. (flow.secret-then-send; events 2)"
    )


async def test_page_then_push_is_high() -> None:
    push = CmdRunAction(command="git push")
    assert (await judged(push, run("ls"))).risk is UNKNOWN
    assert "flow.page-then-push" in (await judged(push, run("curl https://a.example/"))).reasons[0]


async def test_rejected_actions_do_not_count() -> None:
    history = run("cat .env", "ls", refused=["cat .env"])
    assert (await judged(BrowseURLAction(url="https://a.example/"), history)).risk is MEDIUM


async def test_steps_count_in_their_order() -> None:
    run_it = CmdRunAction(command="make")
    assert (await judged(run_it, run("curl -O https://a.example/x", "chmod +x x"))).risk is HIGH
    assert (await judged(run_it, run("chmod +x x", "curl -O https://a.example/x"))).risk is MEDIUM


async def test_policies_of_the_user_are_added() -> None:
    text = """
    [[policy]]
    id = "mine.no-deploy"
    risk = "UNKNOWN"
    reason = "Deploying is asked about."
    then = { commands = ["make deploy*"], kind = "run", not_hosts = [] }
    """
    with pytest.raises(ConfigurationError, match=r"mine\.no-deploy: 'not_hosts'"):
        read_policies(text, "policies.toml")
    policies = read_policies(text.replace(", not_hosts = []", ""), "policies.toml")
    assert (await judged(CmdRunAction(command="make deploy"), None, Invariant(policies))).risk is UNKNOWN
    assert (await judged(CmdRunAction(command="make"), None, Invariant(policies))).risk is LOW


@pytest.mark.parametrize(("text", "why"), [
    ("[[policy]]", "every policy needs an `id`"),
    ("[[policy]]\nid='a'\nrisk='LOW'\nreason='x'\nthen={sends=true}", "never lowers"),
    ("[[policy]]\nid='a'\nrisk='HIGH'\nreason='x'", "needs a `reason` and a `then`"),
    ("[[policy]]\nid='a'\nrisk='HIGH'\nreason='x'\nthen={}", "at least one key"),
    ("[[policy]]\nid='a'\nrisk='HIGH'\nreason='x'\nthen={sends='yes'}", "'sends'"),
    ("[[policy]]\nid='a'\nrisk='HIGH'\nreason='x'\nthen={sends=true}\nwhne={}", "'whne' is no key"),
    ("[[policy]\n", "policies.toml: "),
    ("policy = 3", "has to be a list"),
])  # fmt: skip
def test_invalid_policy_error_names_the_file(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^policies\.toml: ") as told:
        read_policies(text, "policies.toml")
    assert why in str(told.value)


def test_shipped_policy_rules_are_in_the_table() -> None:
    from fnmatch import fnmatchcase

    for policy in shipped():
        for step in (*policy.before, policy.then):
            for pattern in step.patterns.get("rules", ()):
                assert any(fnmatchcase(rule, pattern) for rule in RULES), (policy.id, pattern)


CURL = CmdRunAction(command="curl -o x https://a.example/y")


@pytest.mark.parametrize(
    ("step", "action", "holds"),
    [
        ("kind = 'run'", CURL, True),
        ("kind = 'browse'", CURL, False),
        ("kind = ['browse', 'ru*']", CURL, True),
        ("tool = 'a__*'", MCPAction(name="a__b"), True),
        ("tool = 'b__*'", MCPAction(name="a__b"), False),
        ("tool = '*'", CURL, False),
        ("rules = 'net.*'", CURL, True),
        ("rules = 'git.*'", CURL, False),
        ("commands = 'curl *'", CURL, True),
        ("commands = 'curl'", CURL, False),
        ("writes = '*/x'", CURL, True),
        ("reads = '*/x'", CURL, False),
        ("reads = '*/x'", CmdRunAction(command="cat x"), True),
        ("hosts = 'a.example'", CURL, True),
        ("hosts = 'b.example'", CURL, False),
        ("not_hosts = 'a.example'", CURL, False),
        ("not_hosts = 'b.example'", CURL, True),
        ("not_hosts = 'b.example'", CmdRunAction(command="ls"), False),
        ("not_hosts = 'a.example'", CmdRunAction(command="curl https://a.example https://b.example"), True),
        ("sends = true", CURL, True),
        ("sends = false", CURL, False),
        ("sends = false", CmdRunAction(command="ls"), True),
        ("carries = true", CURL, False),
        ("carries = true", CmdRunAction(command="git push"), True),
        ("opaque = true", CURL, False),
        ("opaque = true", CmdRunAction(command="eval x"), True),
        ("sends = true, commands = 'curl *'", CURL, True),
        ("sends = true, commands = 'wget *'", CURL, False),
        ("sends = false, commands = 'curl *'", CURL, False),
        ("kind = 'run', commands = 'wget *'", CURL, False),
    ],
    ids=str,
)
def test_step_matches_if_all_keys_match(step: str, action: Action, holds: bool) -> None:
    (policy,) = read_policies(f"[[policy]]\nid='a'\nrisk='HIGH'\nreason='x'\nthen={{{step}}}", "x")
    found = policy.events(action, facts_of(action, workspace=WORKSPACE), ())
    assert found == ([] if holds else None)


@pytest.mark.parametrize(
    ("keys", "commands", "events"),
    [
        ("", [], []),
        ("when={commands='a'}", ["a", "b"], [0]),
        ("when={commands='a'}", ["b", "a", "a"], [2]),
        ("when={commands='a'}", ["b"], None),
        ("after=[{commands='a'}]", ["a"], [0]),
        ("when={commands='a'}\nafter=[{commands='b'}, {commands='c'}]", ["a", "b", "x", "c"], [0, 2, 6]),
        ("when={commands='a'}\nafter=[{commands='b'}]", ["b", "a"], None),
        ("when={commands='a'}\nafter=[{commands='a'}]", ["a"], None),
        ("when={commands='a'}\nafter=[{commands='a'}]", ["a", "a"], [0, 2]),
    ],
)
async def test_earlier_actions_count_in_order(keys: str, commands: list[str], events: list[int] | None) -> None:
    text = f"[[policy]]\nid='mine'\nrisk='HIGH'\nreason='It is so.'\n{keys}\nthen={{commands='ls'}}"
    policies = read_policies(text, "x")
    done = run(*commands).done
    ls = CmdRunAction(command="ls")
    assert policies[0].events(ls, facts_of(ls, workspace=WORKSPACE), done) == events
    said = await Invariant(policies).assess(ls, facts_of(ls, workspace=WORKSPACE), done)
    behind = f"; events {', '.join(map(str, events))}" if events else ""
    assert said == (None if events is None else Assessment(HIGH, (f"It is so. (mine{behind})",)))


async def test_strictest_policy_counts() -> None:
    text = "".join(
        f"[[policy]]\nid='{name}'\nrisk='{risk}'\nreason='{name}.'\nthen={{kind='run'}}\n"
        for name, risk in (("a", "MEDIUM"), ("b", "HIGH"), ("c", "UNKNOWN"))
    )
    ls = CmdRunAction(command="ls")
    said = await Invariant(read_policies(text, "x")).assess(ls, facts_of(ls, workspace=WORKSPACE), ())
    assert said == Assessment(HIGH, ("a. (a)", "b. (b)", "c. (c)"))


def test_policies_are_limited() -> None:
    row = "[[policy]]\nid='{}'\nrisk='HIGH'\nreason='{}'\nthen={{kind='run'}}\n"
    (policy,) = read_policies(row.format("i" * 100, "r" * 300), "x")
    assert (policy.id, policy.risk, policy.reason, policy.before) == ("i" * 80, HIGH, "r" * 200, ())
    assert policy.then.patterns == {"kind": ("run",)}
    assert len(read_policies(row.format("a", "b") * MAX_POLICIES, "x")) == MAX_POLICIES
    assert read_policies("", "x") == []
    with pytest.raises(ConfigurationError, match=f"at most {MAX_POLICIES}"):
        read_policies(row.format("a", "b") * (MAX_POLICIES + 1), "x")


@pytest.mark.parametrize(
    "wrong",
    [
        "id = 3", "risk = 'LOUD'", "reason = 3", "then = 3", "then = { kind = 3 }", "then = { kind = [] }",
        "then = { kind = ['a', 3] }", "then = { sends = 'a' }", "then = { kind = true }", "when = {}", "after = [3]",
        "after = 3", "more = 3",
    ],
)  # fmt: skip
def test_invalid_policy_keys_are_refused(wrong: str) -> None:
    keys = {"id": "'a'", "risk": "'HIGH'", "reason": "'x'", "then": "{ kind = 'run' }"}
    key, _, value = wrong.partition(" = ")
    text = "\n".join(f"{key} = {value}" for key, value in (keys | {key: value}).items())
    with pytest.raises(ConfigurationError, match=r"^x: "):
        read_policies(f"[[policy]]\n{text}", "x")


def test_history_is_limited() -> None:
    history = run(*(f"echo {n}" for n in range(MAX_PAST + 2)))
    assert (len(history.done), history.waiting) == (MAX_PAST, ())
    assert [past.event for past in (history.done[0], history.done[-1])] == [4, 2 * MAX_PAST + 2]


def test_history_has_only_answered_actions() -> None:
    def envelope(id: int, event: Action | CmdOutputObservation | ErrorObservation, cause: int | None) -> Envelope:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        source = EventSource.AGENT if isinstance(event, Action) else EventSource.ENVIRONMENT
        return Envelope(conversation_id="c", id=id, timestamp=at, source=source, cause=cause, event=event)

    ls, output = CmdRunAction(command="ls"), CmdOutputObservation(content="", command="ls")
    empty = History(WORKSPACE)
    assert empty.after(envelope(0, MessageAction(content="hm"), None)) == empty
    waiting = empty.after(envelope(1, ls, None)).after(envelope(2, CmdRunAction(command="pwd"), None))
    assert [past.event for past in waiting.waiting] == [1, 2]
    assert waiting.done == ()
    assert waiting.after(envelope(3, output, None)) == waiting.after(envelope(3, output, 9)) == waiting
    done = waiting.after(envelope(3, output, 2))
    assert [[past.event for past in part] for part in (done.done, done.waiting)] == [[2], [1]]
    assert done.after(envelope(4, ErrorObservation(content=""), 1)) == replace(done, waiting=())


@pytest.mark.parametrize(
    ("rated", "said"),
    [
        (UNKNOWN, None),
        (LOW, Assessment(LOW)),
        (MEDIUM, Assessment(MEDIUM, ("The model rated this action MEDIUM.",))),
        (HIGH, Assessment(HIGH, ("The model rated this action HIGH.",))),
    ],
)
async def test_rating_of_the_model_is_used(rated: ActionSecurityRisk, said: Assessment | None) -> None:
    action = CmdRunAction(command="rm -rf /", security_risk=rated)
    (voice,) = analyzers(["model"])
    facts = facts_of(action, workspace=WORKSPACE)
    assert await voice.assess(action, facts, ()) == said
    (rules,) = analyzers(["local", "local"])
    assert await rules.assess(action, facts, ()) == Assessment(HIGH, facts.reasons)
    assert [one.name for one in analyzers()] == list(OURS)


async def test_reasons_are_limited() -> None:
    long, many = "x" * (MAX_CHARS + 1), tuple(map(str, range(MAX_REASONS)))
    said = await judged(
        CmdRunAction(command="ls"), None, Voice(Assessment(MEDIUM, (long, long))), Voice(Assessment(MEDIUM, many))
    )
    assert said == Assessment(MEDIUM, (long[:-1], *many[:-1]))
    assert await judged(CmdRunAction(command="ls"), None, Voice(None)) == Assessment(LOW)
    (reason,) = (await judged(CmdRunAction(command="ls"), None, Voice(ValueError(long), "n" * 99))).reasons
    assert reason == f"The analyzer {'n' * 80} failed: ValueError: {long}"[:MAX_CHARS]
