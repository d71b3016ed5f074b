"""What memory answers to a RecallAction. Pure: the workspace and the time are handed in."""

from __future__ import annotations

from datetime import UTC, datetime

from core.events import NullObservation, RecallAction, RecallObservation, RecallType
from core.repository import Repository, folder_of


def recall(
    action: RecallAction, *, workspace: str, now: datetime, repository: Repository | None = None
) -> RecallObservation | NullObservation:
    """Where the agent works and what day it is, at the start; nothing for a query that no knowledge answers.

    `workspace` is the working folder as the runtime sees it, with the folder of the `repository` that was chosen in
    it; `now` is aware.
    """
    if action.recall_type is RecallType.WORKSPACE_CONTEXT:
        return RecallObservation(
            content="Added workspace context",
            recall_type=RecallType.WORKSPACE_CONTEXT,
            working_dir=workspace,
            repo_name=repository.name if repository else "",
            repo_directory=folder_of(repository, workspace) if repository else "",
            date=now.astimezone(UTC).date().isoformat(),
        )
    return NullObservation()
