"""What memory answers to a RecallAction. Pure: the workspace and the time are handed in."""

from __future__ import annotations

from datetime import UTC, datetime

from core.events import NullObservation, RecallAction, RecallObservation, RecallType


def recall(action: RecallAction, *, workspace: str, now: datetime) -> RecallObservation | NullObservation:
    """Where the agent works and what day it is, at the start; nothing for a query that no knowledge answers.

    `workspace` is the working folder as the runtime sees it; `now` is aware.
    """
    if action.recall_type is RecallType.WORKSPACE_CONTEXT:
        return RecallObservation(
            content="Added workspace context",
            recall_type=RecallType.WORKSPACE_CONTEXT,
            working_dir=workspace,
            date=now.astimezone(UTC).date().isoformat(),
        )
    return NullObservation()
