"""When a plan waits for its approval. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.controller.state import State
    from tui.workspace.tab import Tab

_ASKS = frozenset({"awaiting_user_input", "finished"})
"""Where the agent rests and a plan that it made is complete."""


def waits_for_approval(state: State, tab: Tab) -> bool:
    """Whether a plan is made that the user has not approved yet."""
    return state.planning and state.agent_state in _ASKS and not state.is_busy and bool(tab.plan.tasks)
