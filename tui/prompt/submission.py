"""What is written in the prompt, and where it goes: a message, the queue, a command, the shell.

Nothing that was written is lost: what cannot be carried out goes back into the prompt, with the reason.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.prompt import references, slash_commands
from tui.prompt.view import SHELL, Prompt
from tui.shortcuts.command import keyed
from tui.terminal_io.sanitizer import sanitize_line
from tui.trust.commands import consents
from tui.workspace.conversation_start import new_conversation

if TYPE_CHECKING:
    from tui.approval.approvals import Approvals
    from tui.approval.view import QuestionView
    from tui.prompt.completion_sources import CompletionSources
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


class Submission:
    """Sends what the user writes."""

    def __init__(self, app: Context, sources: CompletionSources, approvals: Approvals) -> None:
        self._app, self._sources, self._approvals = app, sources, approvals
        self.early: tuple[str, ...] = ()
        """What was sent before there was a conversation."""

    # -- sending -------------------------------------------------------------------------------------------------------

    def submit_written(self, message: Prompt.Submitted) -> None:
        """Carry out what was written; where that cannot be, it goes back into the prompt."""
        tab = self._app.tabs.conversation  # a key that came behind Enter may have shown another tab
        if message.tab is not None:
            tab = next((one for one in self._app.tabs.conversations if one is message.tab), None)
        self._app.workspace.notice.clear()
        if tab is None and not slash_commands.parse(message.text):
            self.early += (message.text,)
            self._app.flash(_("The message is sent when the conversation has opened."))
            if not self._app.is_starting:
                self._app.attempt(new_conversation(self._app))
            return
        self._app.attempt(self.submit(tab, message.text, question=message.question))

    def send_early(self, tab: ConversationTab) -> None:
        """Say what was sent before there was this conversation, in order."""
        said, self.early = self.early, ()
        if said:
            self._app.attempt(self._say_all(tab, said))

    async def _say_all(self, tab: ConversationTab, texts: Sequence[str]) -> None:
        for place, text in enumerate(texts, 1):
            try:
                await self.submit(tab, text)
            except BaseException:
                self.early += tuple(texts[place:])
                self.take_back_early()
                raise

    def take_back_early(self) -> None:
        """What was sent before there was a conversation stands in the prompt again, in front of what does."""
        said, self.early = self.early, ()
        if said:
            self._app.workspace.prompt.put("\n".join([*said, self._app.workspace.prompt.text]).strip())

    async def submit(
        self, tab: ConversationTab | None, written: str, *, queued: bool = False, question: QuestionView | None = None
    ) -> None:
        """Carry out what was written, now or once the agent rests.

        A message under a question about an action denies the action, and the agent reads the message as the reason.
        """
        with self._kept(tab, written):
            if (line := slash_commands.parse(written)) is not None:
                await self._command(tab, line, written, queued=queued, question=question)
            elif tab is None or not await consents(self._app, tab):
                self._put_back(tab, written)
            elif written.startswith(SHELL):
                await self._run_in_shell(tab, written)
            else:
                text = written[1:] if written.startswith("//") else written
                await self._send(tab, text, queued=queued, question=question)

    @contextmanager
    def _kept(self, tab: ConversationTab | None, written: str) -> Iterator[None]:
        """Have it in the prompt again where it could not be carried out."""
        try:
            yield
        except BaseException:
            self._put_back(tab, written)
            raise

    def _put_back(self, tab: ConversationTab | None, written: str) -> None:
        if self._app.tabs.current is tab and not self._app.workspace.prompt.text:
            self._app.workspace.prompt.put(written)

    async def _send(
        self, tab: ConversationTab, written: str, *, queued: bool = False, question: QuestionView | None = None
    ) -> None:
        chips = self._app.workspace.prompt.chips
        if not queued and self._app.tabs.current is tab:
            self._app.workspace.chat.go("end")
        text, urls = chips.expanded(written), [picture.url for picture in chips.pictures(written)]
        context = await self._referred(tab, chips.typed(written))
        if question is not None and await self._approvals.deny_with(tab, question, "" if urls else text + context):
            if urls:  # a denial carries no pictures, so they follow as a message
                await tab.session.send(text, urls, context)
        else:
            await (tab.session.queue if queued else tab.session.send)(text, urls, context)
        chips.give_up_pictures(written)

    async def _referred(self, tab: ConversationTab, typed: str) -> str:
        """What the events are to which the text refers by number."""
        found = [await tab.event(number) for number in references.referred(typed)]
        return references.context([envelope for envelope in found if envelope is not None])

    async def _run_in_shell(self, tab: ConversationTab, written: str) -> None:
        command = self._app.workspace.prompt.chips.expanded(written)[len(SHELL) :].strip()
        if not command:
            self._put_back(tab, written)
            self._app.flash(_("Type a command after the exclamation mark."))
            return
        self._app.workspace.chat.go("end")
        await tab.session.user_control.run_command(command)

    async def queue(self) -> None:
        """Queue what is in the prompt until the agent rests; an open list completes instead."""
        prompt, tab = self._app.workspace.prompt, self._app.tabs.conversation
        if await prompt.complete() or tab is None or not prompt.text.strip():
            return
        line = slash_commands.parse(prompt.text)
        if prompt.text.startswith(SHELL) or (line is not None and line.name in slash_commands.BUILT_IN):
            self._app.flash(keyed(_("Only messages can be queued. Press {prompt.send} to run this.")))
            return
        self._app.attempt(self.submit(tab, prompt.take(), queued=True))

    def warn_of_picture(self) -> None:
        """Say so where the model will not be shown it."""
        if self._app.manager is not None and self._app.manager.settings.llm.vision == "no":
            self._app.flash(_("Images are disabled: llm.vision is “no” in config.toml."))

    # -- commands ------------------------------------------------------------------------------------------------------

    async def _command(
        self,
        tab: ConversationTab | None,
        line: slash_commands.Line,
        written: str,
        *,
        queued: bool,
        question: QuestionView | None,
    ) -> None:
        built_in = slash_commands.BUILT_IN.get(line.name)
        if built_in is not None and (not line.words or built_in.words):
            await self._app.do(built_in.id, line.words)
            return
        if built_in is not None:
            self._put_back(tab, written)
            told = _("/{name} takes no arguments. Start with // to send the text as a message.")
            self._app.report(told.format(name=line.name))
            return
        if tab is None:
            self._put_back(tab, written)
            self._app.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
            return
        own, _problems = await self._sources.own_commands()
        if (command := own.get(line.name)) is not None:
            await self._send(tab, command.message(line.words), queued=queued, question=question)
        elif line.name in await self._sources.called():
            await self._send(tab, written, queued=queued, question=question)  # what it stands for is recalled
        elif await asyncio.to_thread(_is_path, line.name):
            await self._send(tab, written, queued=queued, question=question)  # a path, said first
        else:
            self._put_back(tab, written)
            told = _("Unknown command /{name}. Type / to list commands, or // to send text that starts with a slash.")
            self._app.report(told.format(name=sanitize_line(line.name, 40)))


def _is_path(name: str) -> bool:
    """Whether there is something of this name at the root of the file system."""
    return bool(name) and os.path.lexists(f"/{name}")
