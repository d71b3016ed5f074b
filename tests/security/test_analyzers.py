"""The voices about the risk of an action: ours, those of other packages, and policies over actions in a row."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Sequence
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
    EventSource,
    UserRejectObservation,
)
from core.security.analyzers import Analyzer, Assessment, analyzers, assess
from core.security.analyzers.history import History, Past
from core.security.analyzers.invariant import Invariant, read_policies, shipped
from core.security.facts import Facts, facts_of
from core.security.rules import RULES

WORKSPACE = "/workspace/app"
LOW, MEDIUM, HIGH, UNKNOWN = (ActionSecurityRisk[name] for name in ("LOW", "MEDIUM", "HIGH", "UNKNOWN"))


class Voice:
    """Says what it is told to, or fails, or never answers."""

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
async def test_the_model_raises_and_never_lowers(
    rated: ActionSecurityRisk, command: str, risk: ActionSecurityRisk
) -> None:
    assert (await judged(CmdRunAction(command=command, security_risk=rated))).risk is risk


async def test_the_strictest_wins_and_its_reasons_come_first() -> None:
    said = await judged(
        CmdRunAction(command="ls"),
        None,
        Voice(Assessment(LOW, ("calm",))),
        Voice(Assessment(HIGH, ("loud",))),
        Voice(None),
    )
    assert said == Assessment(HIGH, ("loud", "calm"))


async def test_one_that_fails_counts_as_unknown_and_stops_nothing() -> None:
    said = await judged(CmdRunAction(command="ls"), None, Voice(RuntimeError("broken"), "bad"), Voice(Assessment(LOW)))
    assert said == Assessment(UNKNOWN, ("The analyzer bad failed: RuntimeError: broken",))


async def test_one_that_never_answers_counts_as_unknown() -> None:
    said = await judged(
        CmdRunAction(command="ls"), None, Voice("never", "slow"), Voice(Assessment(LOW)), timeout_s=0.05
    )
    assert said == Assessment(UNKNOWN, ("The analyzer slow took longer than 0.05 s.",))


async def test_one_that_answers_something_else_counts_as_unknown() -> None:
    assert (await judged(CmdRunAction(command="ls"), None, Voice("HIGH"))).risk is UNKNOWN


async def test_cancelling_cancels_all() -> None:
    waiting = asyncio.create_task(judged(CmdRunAction(command="ls"), None, Voice("never"), timeout_s=60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_an_analyzer_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigurationError, match=r"no analyzer .cloud..*invariant, local, model"):
        analyzers(["local", "cloud"])


def test_one_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("sample", "tests.security.test_analyzers:sample", "handloom.analyzers")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry] if group == entry.group else [])
    assert [voice.name for voice in analyzers(["sample", "local"])] == ["sample", "local"]


def sample() -> Analyzer:
    return Voice(None, "sample")


def test_one_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("sample", "tests.nowhere:sample", "handloom.analyzers")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    with pytest.raises(ConfigurationError, match="'sample' cannot be started: ModuleNotFoundError"):
        analyzers(["sample"])


async def test_secrets_and_then_the_network() -> None:
    quiet = CmdRunAction(command="curl https://a.example/x")
    assert (await judged(quiet)).risk is MEDIUM
    said = await judged(quiet, run("ls", "cat .env"))
    assert said.risk is HIGH
    assert said.reasons[0] == (
        "Secrets were read before, and this could carry them out. (flow.secret-then-send; events 2)"
    )


async def test_a_page_and_then_a_push() -> None:
    push = CmdRunAction(command="git push")
    assert (await judged(push, run("ls"))).risk is UNKNOWN
    assert "flow.page-then-push" in (await judged(push, run("curl https://a.example/"))).reasons[0]


async def test_what_was_refused_did_not_happen() -> None:
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
def test_a_bad_policy_is_told_with_its_file(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^policies\.toml: ") as told:
        read_policies(text, "policies.toml")
    assert why in str(told.value)


def test_the_rules_of_the_shipped_policies_are_in_the_table() -> None:
    from fnmatch import fnmatchcase

    for policy in shipped():
        for step in (*policy.before, policy.then):
            for pattern in step.patterns.get("rules", ()):
                assert any(fnmatchcase(rule, pattern) for rule in RULES), (policy.id, pattern)
