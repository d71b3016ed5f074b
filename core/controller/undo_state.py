"""Undo in the state of the controller: what a turn changed is set aside, and a redo restores it.

Pure, a part of the decisions (`decide`). Invariants: an undo begins only while nothing is running; costs are not
reverted, nor are extended limits; a redo restores the state before the undo; neither sends or runs anything. After the
next message of the user an undo cannot be redone.
"""

from __future__ import annotations

from dataclasses import replace

from core.controller.state import State, Undoing, Undone
from core.events import AgentState, UndoAction, UndoObservation


def begin_undo(s: State, action_id: int, action: UndoAction) -> State:
    """The state with an undo or a redo begun; unchanged if it is not possible."""
    if not s.can_undo or (action.redoes is not None and (not s.undone or s.undone[-1].id != action.redoes)):
        return s
    return replace(s, undoing=Undoing(action_id, action.first, action.chat, action.redoes))


def finish_undo(s: State, observation: UndoObservation) -> State:
    """The state after its end."""
    undoing, s = s.undoing, replace(s, undoing=None)
    if undoing is None or not observation.done:
        return s
    return _undo(s, undoing) if undoing.redoes is None else _redo(s)


def _undo(s: State, undoing: Undoing) -> State:
    first = undoing.first
    aside = Undone(
        undoing.id, first, undoing.chat, s.first_message_id, s.queued, s.agent_state, s.reason, s.halt, s.unread,
        tuple(plan for plan in s.plans if plan[0] >= first),
    )  # fmt: skip
    s = replace(s, undone=(*s.undone, aside))
    if not undoing.chat:
        return s
    return replace(
        s,
        first_message_id=s.first_message_id if s.first_message_id is not None and s.first_message_id < first else None,
        queued=tuple(queued for queued in s.queued if queued.id < first),
        agent_state=AgentState.AWAITING_USER_INPUT,
        reason="",
        halt=None,
        unread=False,
        plans=tuple(plan for plan in s.plans if plan[0] < first),
        ending=None,
        condensed=False,
        recent=(),
    )


def _redo(s: State) -> State:
    *left, aside = s.undone
    s = replace(s, undone=tuple(left))
    if not aside.chat:
        return s
    return replace(
        s,
        first_message_id=aside.first_message_id,
        queued=(*s.queued, *(queued for queued in aside.queued if queued.id >= aside.first)),
        agent_state=aside.agent_state,
        reason=aside.reason,
        halt=aside.halt,
        unread=aside.unread,
        plans=(*s.plans, *aside.plans),
        recent=(),
    )
