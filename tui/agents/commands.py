"""Who works on a new conversation: the user chooses an agent; a project's is read first. A mixin of the app's handlers.

What stands in a project's file is foreign: it is shown clean and in full, and the agent works only after a yes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.agent.registry import AgentKind, Found
    from core.conversations.conversation_manager import ConversationManager


NAME_CELLS, NOTE_CELLS, PROBLEM_CELLS = 64, 120, 300
SHOWN_PROBLEMS = 3


class Choosing(Frame):
    """The choice of an agent, by the id of the command table."""

    def do_conv_agent(self) -> None:
        if self.manager is None:
            self.flash(_("Handloom is still starting."))
            return
        self.attempt(self._new_with_agent(self.manager))

    async def _new_with_agent(self, manager: ConversationManager) -> None:
        from tui.dialogs.dialog import ChoiceScreen

        found = await manager.agents_for(self.options.workspace)
        if found.problems:
            self.report(sanitize("\n".join(p[:PROBLEM_CELLS] for p in found.problems[:SHOWN_PROBLEMS])))
        chosen = await self.push_screen_wait(ChoiceScreen(_("Who shall work?"), choices(found)))
        if chosen is None:
            return
        kind = found.kinds[chosen]
        if kind.allowed or await self._allow(manager, kind):
            await self.new_conversation(kind.name, kind.model)

    async def _allow(self, manager: ConversationManager, kind: AgentKind) -> bool:
        """Show a project's agent in full, and take the user's answer."""
        from tui.agents.screen import ReadFirstScreen

        assert kind.file is not None
        title = sanitize_line(str(kind.file.path), NOTE_CELLS)
        if not await self.push_screen_wait(ReadFirstScreen(title, sanitize(kind.file.text))):
            return False
        await manager.allow_agent(kind)
        return True


def choices(found: Found) -> list[Any]:
    """The agents as lines to choose from."""
    from tui.dialogs.dialog import Choice

    lines = []
    for kind in found.kinds.values():
        origin = kind.origin if kind.allowed else _("{origin}; you read it first").format(origin=kind.origin)
        note = sanitize_line(f"{kind.description} · {origin}", NOTE_CELLS)
        lines.append(Choice(kind.name, sanitize_line(kind.name, NAME_CELLS), note))
    return lines
