"""What agents remember and know: compact the history, pin facts, list and delete them, show skills and microagents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.content import Content

from tui.dialogs.dialog import Choice, ChoiceScreen, SureScreen, TextScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line
from tui.trust.commands import project_folder

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from tui.workspace.context import Context


async def compact(app: Context, keep: str = "") -> None:
    """Compact the conversation; `keep` says what the summary must keep."""
    if app.tabs.conversation is None:
        return
    await app.tabs.conversation.session.compact(keep)
    app.flash(_("The conversation is compacted for the model; the log keeps everything."))


async def pin(app: Context, text: str = "") -> None:
    """Remember a fact for this project; without a text, show what is remembered."""
    await _pin(app, text, _here(app))


async def pin_everywhere(app: Context, text: str = "") -> None:
    """Remember a fact for every project; without a text, show what is remembered."""
    await _pin(app, text, "")


def show_memory(app: Context) -> None:
    """Show what is remembered, and let the user forget it."""
    app.attempt(_manage_memory(app))


def _here(app: Context) -> str:
    """The folder that a fact of this project holds for."""
    return tab.session.info.workspace if (tab := app.tabs.conversation) is not None else app.options.workspace


async def _pin(app: Context, text: str, workspace: str) -> None:
    from core.memory.saved_facts import SavedFacts

    if not text:
        show_memory(app)
    elif app.manager is not None:
        await asyncio.to_thread(SavedFacts(app.manager.store.home).add, text, workspace)
        app.flash(_("Remembered. Agents read it at the start of conversations."))


async def _manage_memory(app: Context) -> None:
    from core.memory.saved_facts import SavedFacts

    if app.manager is None:
        return
    pins = SavedFacts(app.manager.store.home)
    while True:
        facts = await asyncio.to_thread(pins.all)
        everywhere = _("everywhere")
        choices = [
            Choice(str(number), sanitize_line(fact.text, 300), sanitize_line(fact.workspace, 100) or everywhere)
            for number, fact in enumerate(facts, 1)
        ]
        empty = _("No memories yet. Add one with /remember FACT.")
        chosen = await app.push_screen_wait(ChoiceScreen(_("Memory: Enter forgets one"), choices, empty=empty))
        if chosen is None:
            return
        fact = facts[int(chosen) - 1]
        question = _("Forget “{fact}”?").format(fact=sanitize_line(fact.text, 100))
        if await app.push_screen_wait(SureScreen(question, _("forget it"))):
            await asyncio.to_thread(pins.forget, facts.index(fact) + 1)


def show_knowledge(app: Context) -> None:
    """Show the skills and microagents that apply, where they come from, and what is wrong with them."""
    if app.manager is None:
        app.flash(_("Handloom is still starting."))
        return
    app.attempt(_show_knowledge(app, app.manager))


async def _show_knowledge(app: Context, manager: ConversationManager) -> None:
    from tui.memory.memory_text import knowledge_text

    gathered = await manager.trust.gathered(project_folder(app))
    text = Content.assemble(*knowledge_text(gathered))
    app.push_screen(TextScreen(_("Skills and microagents"), text))


ROWS = (
    Command("memory.compact", (), "Compact", "Compact the conversation. Optionally say what to keep.",
            Group.CONVERSATIONS, leader="c", slash="compact", words="what to keep", acts=True, run_with=compact,
            also="summarize summarise condense shorten context"),
    Command("memory.pin", (), "Remember", "Remember a fact for agents in this project.", Group.CONVERSATIONS,
            slash="remember", words="a fact", run_with=pin),
    Command("memory.pin_all", (), "Remember everywhere", "Remember a fact for agents in every project.",
            Group.CONVERSATIONS, slash="rememberall", words="a fact", run_with=pin_everywhere),
    Command("memory.list", (), "Memory", "List and remove memories.", Group.CONVERSATIONS, leader="b", slash="memory",
            run=show_memory),
    Command("conv.knowledge", (), "Skills and microagents", "Show the skills and microagents of this folder, and "
            "problems with them.", Group.CONVERSATIONS, leader="K", slash="skills", run=show_knowledge),
)  # fmt: skip
