"""The words that actions and observations share, with the values of OpenHands V0 (`openhands/core/schema`)."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ActionSecurityRisk(IntEnum):
    """How much harm an action could do."""

    UNKNOWN = -1
    LOW = 0
    MEDIUM = 1
    HIGH = 2


class ActionConfirmationStatus(StrEnum):
    """Whether the user has to agree before an action is carried out."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    AWAITING_CONFIRMATION = "awaiting_confirmation"


class AgentState(StrEnum):
    """What the controller of a conversation is doing."""

    LOADING = "loading"
    RUNNING = "running"
    AWAITING_USER_INPUT = "awaiting_user_input"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"
    REJECTED = "rejected"
    ERROR = "error"
    AWAITING_USER_CONFIRMATION = "awaiting_user_confirmation"
    USER_CONFIRMED = "user_confirmed"
    USER_REJECTED = "user_rejected"
    RATE_LIMITED = "rate_limited"


class RecallType(StrEnum):
    """What memory is asked for."""

    WORKSPACE_CONTEXT = "workspace_context"
    KNOWLEDGE = "knowledge"


class FileEditSource(StrEnum):
    """Which editor an edit is written for."""

    LLM_BASED_EDIT = "llm_based_edit"
    OH_ACI = "oh_aci"


class FileReadSource(StrEnum):
    """Which reader a read is written for."""

    OH_ACI = "oh_aci"
    DEFAULT = "default"


CONFIRMATION = frozenset({"confirmation_state"})
"""V0 never asks before these; here every action that acts can wait for the user's yes."""
