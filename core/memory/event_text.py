"""One event as the text that the model reads. The notes are those of OpenHands V0, which models are tuned to."""

from __future__ import annotations

from collections.abc import Sequence

from core.events import (
    MAX_CMD_OUTPUT_CHARS,
    AgentCondensationObservation,
    AgentStateChangedObservation,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    CheckpointObservation,
    CmdOutputObservation,
    Envelope,
    ErrorObservation,
    NullObservation,
    Observation,
    RecallObservation,
    RecallType,
    SecretMaskedObservation,
    UndoObservation,
    UserRejectObservation,
    truncate_middle,
)
from core.store.blobs import picture_urls

MAX_OBSERVATION_CHARS = MAX_CMD_OUTPUT_CHARS
"""What the model sees of one observation at most."""
_UNSEEN = (
    AgentStateChangedObservation, CheckpointObservation, NullObservation, RecallObservation, SecretMaskedObservation,
    UndoObservation,
)  # fmt: skip
ERROR_NOTE = "[Error occurred in processing last action]"
REJECTION_NOTE = "[Last action has been rejected by the user]"
SUMMARY_NOTE = "[What came before was condensed. Here is a summary of it, a record of what was said and done:]"


def observation_text(observation: Observation) -> str:
    """An observation for the model, at most MAX_OBSERVATION_CHARS and a note long."""
    match observation:
        case CmdOutputObservation():
            return truncate_middle(observation.to_agent_text(), MAX_OBSERVATION_CHARS)
        case ErrorObservation():
            return f"{truncate_middle(observation.content, MAX_OBSERVATION_CHARS)}\n{ERROR_NOTE}"
        case UserRejectObservation():
            return f"{truncate_middle(observation.content, MAX_OBSERVATION_CHARS)}\n{REJECTION_NOTE}"
        case AgentCondensationObservation():
            return f"{SUMMARY_NOTE}\n{truncate_middle(observation.content, MAX_OBSERVATION_CHARS)}"
        case RecallObservation():
            return truncate_middle(_recall_text(observation), MAX_OBSERVATION_CHARS)
        case _:
            return truncate_middle(observation.content, MAX_OBSERVATION_CHARS)


def seen_pictures(observation: Observation) -> list[str]:
    """The URLs of the pictures that the model is shown with an observation.

    Of a page that is what it acts on, with marks where there are some; who only opened it reads its text.
    """
    if isinstance(observation, BrowserOutputObservation):
        acted = observation.trigger_by_action == BrowseInteractiveAction.kind
        page = observation.set_of_marks or observation.screenshot
        return [page] if acted and page else []
    return picture_urls(observation)


def _recall_text(found: RecallObservation) -> str:
    """What memory found, one fact a line; empty where it found nothing."""
    parts: list[str] = []
    if found.recall_type is RecallType.WORKSPACE_CONTEXT:
        if found.working_dir:
            parts.append(f"The working directory is {found.working_dir}")
        if found.date:
            parts.append(f"Today's date is {found.date} (UTC)")
        if found.repo_name:
            where = f" in {found.repo_directory}" if found.repo_directory else ""
            branch = f" on branch {found.repo_branch}" if found.repo_branch else ""
            parts.append(f"The repository {found.repo_name} is{where or ' here'}{branch}")
        parts += [
            f"The user sees at {host} what you serve on port {port}; let a server listen there on 0.0.0.0"
            for host, port in found.runtime_hosts.items()
        ]
        parts += [
            f"The environment variable ${name} holds a secret: {description}".removesuffix(": ")
            for name, description in found.custom_secrets_descriptions.items()
        ]
        for instructions in (
            found.repo_instructions,
            found.additional_agent_instructions,
            found.conversation_instructions,
        ):
            if instructions:
                parts.append(instructions)
    parts += [
        f'Knowledge that "{item.trigger}" brought up ({item.name}). Use it where it helps.\n{item.content}'
        for item in found.microagent_knowledge
    ]
    return "\n".join(parts)


def last_observation_text(history: Sequence[Envelope]) -> str:
    """The newest result that the model reads, as it reads it; empty where there is none yet."""
    for envelope in reversed(history):
        event = envelope.event
        if isinstance(event, Observation) and not isinstance(event, _UNSEEN) and not getattr(event, "hidden", False):
            return observation_text(event)
    return ""
