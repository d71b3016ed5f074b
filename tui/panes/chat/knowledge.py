"""What was recalled, as a block of the chat: a line with the names, and what the agent was told when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.display.text import sanitize_line
from tui.i18n import _
from tui.panes.chat.blocks import Block, Kind
from tui.panes.chat.calls import clean
from tui.panes.chat.pieces import PieceKind

if TYPE_CHECKING:
    from core.events import RecallObservation

NAMES_CELLS = 120


def knowledge_block(event: RecallObservation) -> Block | None:
    """The block of what memory found; None where that is no more than the folder and the day."""
    names = [one.name for one in event.microagent_knowledge]
    parts = [f"[{one.name} · {one.trigger}]\n{one.content}" for one in event.microagent_knowledge]
    told = [event.repo_instructions, event.additional_agent_instructions, event.conversation_instructions]
    if any(told):
        names.insert(0, _("instructions"))
    text = "\n\n".join([*filter(None, told), *parts])
    if not text:
        return None
    title = _("knowledge: {names}").format(names=sanitize_line(", ".join(names), NAMES_CELLS))
    return Block(Kind.TOOL, title, clean(text), body=PieceKind.TEXT, shown=0)
