"""What memory answers to a recall."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from core.events import (
    CondensationAction,
    Envelope,
    Event,
    EventSource,
    MicroagentKnowledge,
    NullObservation,
    RecallAction,
    RecallObservation,
    RecallType,
)
from core.memory.library import PROJECT, Library, Source, build_library
from core.memory.memory import known_in, recall
from core.memory.view import View
from core.repository import Repository
from core.trust.folder_survey import Kind, Piece

LATE_IN_NEW_YORK = datetime(2025, 1, 31, 23, 0, tzinfo=timezone(timedelta(hours=-5)))


def test_the_workspace_and_the_day_in_utc_are_recalled() -> None:
    action = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="hello")
    assert recall(action, workspace="/w", now=LATE_IN_NEW_YORK) == RecallObservation(
        content="Added workspace context",
        recall_type=RecallType.WORKSPACE_CONTEXT,
        working_dir="/w",
        date="2025-02-01",
    )


def test_a_query_that_nothing_answers_is_answered_by_nothing() -> None:
    action = RecallAction(recall_type=RecallType.KNOWLEDGE, query="hello")
    assert recall(action, workspace="/w", now=LATE_IN_NEW_YORK) == NullObservation()


def said(id: int, event: Event) -> Envelope:
    return Envelope(conversation_id="c", id=id, timestamp=LATE_IN_NEW_YORK, source=EventSource.ENVIRONMENT, event=event)


def library() -> Library:
    texts = {"a.md": "---\ntriggers: [release]\n---\nOn Mondays.", "b.md": "Always so."}
    pieces = [Piece(Kind.MICROAGENT, path, text) for path, text in texts.items()]
    return build_library([Source(PROJECT, [Piece(Kind.INSTRUCTIONS, "AGENTS.md", "Be kind."), *pieces])])


def test_the_first_recall_takes_everything_along() -> None:
    action = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="a release")
    found = recall(
        action,
        workspace="/w",
        now=LATE_IN_NEW_YORK,
        repository=Repository.parse("https://example.org/one.git"),
        branch="main",
        library=library(),
        hosts={"one": 80},
        secrets={"KEY": "opens the door"},
        conversation_instructions="Now.",
    )
    assert isinstance(found, RecallObservation)
    assert (found.repo_name, found.repo_directory, found.repo_branch) == ("one", "/w/one", "main")
    assert found.repo_instructions == "[AGENTS.md]\nBe kind.\n\n[b.md]\nAlways so."
    assert (found.runtime_hosts, found.custom_secrets_descriptions) == ({"one": 80}, {"KEY": "opens the door"})
    assert found.conversation_instructions == "Now."
    assert found.microagent_knowledge == [MicroagentKnowledge(name="a", trigger="release", content="On Mondays.")]


def test_what_the_agent_no_longer_sees_is_told_again() -> None:
    first = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="a release")
    later = RecallAction(recall_type=RecallType.KNOWLEDGE, query="a release")
    found = recall(first, workspace="/w", now=LATE_IN_NEW_YORK, library=library())
    log = [said(0, found)]
    known, instructions = known_in(View.of(log).events)
    answer = recall(
        later, workspace="/w", now=LATE_IN_NEW_YORK, library=library(), known=known, known_instructions=instructions
    )
    assert answer == NullObservation()
    forgets = CondensationAction(forgotten_event_ids=[0])
    log.append(said(1, forgets))
    known, instructions = known_in(View.of(log).events)
    answer = recall(
        later, workspace="/w", now=LATE_IN_NEW_YORK, library=library(), known=known, known_instructions=instructions
    )
    assert isinstance(answer, RecallObservation)
    assert sorted(one.name for one in answer.microagent_knowledge) == ["AGENTS.md", "a", "b.md"]
