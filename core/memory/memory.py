"""What memory answers to a RecallAction. Pure: the workspace, the time and the library are parameters.

Follows `openhands/memory/memory.py` of OpenHands V0, except that all triggers of a message count, not only the first,
and that nothing is repeated that is in the agent's history already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from core.events import (
    Envelope,
    MicroagentKnowledge,
    NullObservation,
    RecallAction,
    RecallObservation,
    RecallType,
)
from core.memory.library import PROJECT, YOURS, Library
from core.repository import Repository, folder_of

EMPTY = Library()
RETRIEVED = "Retrieved knowledge from microagents"
WORKED_IN = "the folder that is worked in"
"""The trigger of instructions that came to count after the start."""


def recall(
    action: RecallAction,
    *,
    workspace: str,
    now: datetime,
    repository: Repository | None = None,
    branch: str = "",
    library: Library = EMPTY,
    given: Collection[tuple[str, str]] = (),
    told: str = "",
    hosts: Mapping[str, int] | None = None,
    secrets: Mapping[str, str] | None = None,
    conversation_instructions: str = "",
) -> RecallObservation | NullObservation:
    """Where the agent works, what it is told and what day it is, at the start; later what a message brings up.

    `workspace` is the working folder as the runtime sees it, with the folder of the `repository` that was chosen in
    it; `now` is aware. `given` is the knowledge that the agent's history holds, by name and content, and `told` the
    project's instructions that it holds: parts that are not among them are told with the knowledge.
    """
    found = library.recall(action.query, given)
    knowledge = [MicroagentKnowledge(name=one.name, trigger=one.trigger, content=one.content) for one in found]
    if action.recall_type is RecallType.WORKSPACE_CONTEXT:
        return RecallObservation(
            content="Added workspace context",
            recall_type=RecallType.WORKSPACE_CONTEXT,
            working_dir=workspace,
            repo_name=repository.name if repository else "",
            repo_directory=folder_of(repository, workspace) if repository else "",
            repo_branch=branch if repository else "",
            repo_instructions=library.instructions_of(PROJECT),
            runtime_hosts=dict(hosts or {}),
            additional_agent_instructions=_joined(library.instructions_of(YOURS), library.skill_list()),
            date=now.astimezone(UTC).date().isoformat(),
            custom_secrets_descriptions=dict(secrets or {}),
            conversation_instructions=conversation_instructions,
            microagent_knowledge=knowledge,
        )
    for path, text in library.parts_of(PROJECT):
        if text not in told and (path, text) not in given:
            knowledge.insert(0, MicroagentKnowledge(name=path, trigger=WORKED_IN, content=text))
    if not knowledge:
        return NullObservation()
    return RecallObservation(content=RETRIEVED, recall_type=RecallType.KNOWLEDGE, microagent_knowledge=knowledge)


def given_in(events: Sequence[Envelope]) -> tuple[set[tuple[str, str]], str]:
    """The knowledge that stands in a view's events, and the project's instructions as they were told last."""
    given: set[tuple[str, str]] = set()
    told = ""
    for envelope in events:
        if isinstance(envelope.event, RecallObservation):
            given |= {(one.name, one.content) for one in envelope.event.microagent_knowledge}
            told = envelope.event.repo_instructions or told
    return given, told


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)
