"""What memory answers to a recall."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from core.events import NullObservation, RecallAction, RecallObservation, RecallType
from core.memory.memory import recall

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
