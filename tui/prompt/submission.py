"""Submission: carries out what the user wrote in the prompt: a message, a queued message, a command, a shell command.

No text is lost: what cannot be carried out goes back into the prompt, with the reason.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.prompt import attachments, slash_commands
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
        """Messages that were sent before there was a conversation."""

    # -- sending -------------------------------------------------------------------------------------------------------

    def handle(self, message: Prompt.Submitted) -> None:
        """Carry out a text in the tab in which it was written: a key behind Enter may have shown another one."""
        tab = self._app.tabs.conversation
        if message.tab is not None:
            tab = next((one for one in self._app.tabs.conversations if one is message.tab), None)
        self._app.workspace.notice.clear()
        if (line := slash_commands.parse(message.text)) is None and tab is None:
            self.early += (message.text,)
            self._app.flash(_("The message is sent when the conversation has opened."))
            if not self._app.is_starting:
                self._app.attempt(new_conversation(self._app))
        elif line is not None and tab is None and message.tab is not None:
            self._app.flash(_("/{name} was not run: its tab was closed.").format(name=sanitize_line(line.name, 40)))
        else:
            self._app.attempt(self.submit(tab, message.text, question=message.question))

    def send_early(self, tab: ConversationTab) -> None:
        """Send the messages that were waiting for this conversation, in order."""
        texts, self.early = self.early, ()
        if texts:
            self._app.attempt(self._send_all(tab, texts))

    async def _send_all(self, tab: ConversationTab, texts: Sequence[str]) -> None:
        for number, text in enumerate(texts, 1):
            try:
                await self.submit(tab, text)
            except BaseException:
                self.early += tuple(texts[number:])
                self.take_back_early()
                raise

    def take_back_early(self) -> None:
        """Put the messages that wait for a conversation back into the prompt, before its text."""
        texts, self.early = self.early, ()
        if texts:
            prompt = self._app.workspace.prompt
            prompt.put("\n".join([*texts, prompt.text]).strip())

    async def submit(
        self, tab: ConversationTab | None, text: str, *, queued: bool = False, question: QuestionView | None = None
    ) -> None:
        """Carry out a text, now or when the agent is done.

        A message under a question about an action denies the action, and the agent reads the message as the reason.
        """
        with self._restored_on_error(tab, text):
            if (line := slash_commands.parse(text)) is not None:
                await self._command(tab, line, text, queued=queued, question=question)
            elif tab is None or not await consents(self._app, tab):
                self._put_back(tab, text)
            elif text.startswith(SHELL):
                await self._run_in_shell(tab, text)
            else:
                message = text[1:] if text.startswith("//") else text
                await self._send(tab, message, queued=queued, question=question)

    @contextmanager
    def _restored_on_error(self, tab: ConversationTab | None, text: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._put_back(tab, text)
            raise

    def _put_back(self, tab: ConversationTab | None, text: str) -> None:
        if self._app.tabs.current is tab and not self._app.workspace.prompt.text:
            self._app.workspace.prompt.put(text)

    async def _send(
        self, tab: ConversationTab, draft: str, *, queued: bool = False, question: QuestionView | None = None
    ) -> None:
        chips = self._app.workspace.prompt.chips
        if not queued and self._app.tabs.current is tab:
            self._app.workspace.chat.action_go("end")
        text, urls = chips.expanded(draft), [picture.url for picture in chips.pictures(draft)]
        ids = attachments.referenced_ids(chips.without_tokens(draft))
        found = [await tab.event(id) for id in ids]
        context = attachments.reference_context([envelope for envelope in found if envelope is not None])
        if question is not None and await self._approvals.deny_with(tab, question, "" if urls else text + context):
            if urls:  # a denial carries no pictures, so they follow as a message
                await tab.session.send(text, urls, context)
        else:
            await (tab.session.queue if queued else tab.session.send)(text, urls, context)
        chips.drop_pictures(draft)

    async def _run_in_shell(self, tab: ConversationTab, text: str) -> None:
        command = self._app.workspace.prompt.chips.expanded(text)[len(SHELL) :].strip()
        if not command:
            self._put_back(tab, text)
            self._app.flash(_("Type a command after the exclamation mark."))
            return
        self._app.workspace.chat.action_go("end")
        await tab.session.user_control.run_command(command)

    async def queue(self) -> None:
        """Queue the text of the prompt until the agent is done; an open list takes the key instead."""
        prompt, tab = self._app.workspace.prompt, self._app.tabs.conversation
        if await prompt.take_row("tab") or tab is None or not prompt.text.strip():
            return
        line = slash_commands.parse(prompt.text)
        if prompt.text.startswith(SHELL) or (line is not None and line.name in slash_commands.BUILT_IN):
            self._app.flash(keyed(_("Only messages can be queued. Press {prompt.send} to run this.")))
            return
        self._app.attempt(self.submit(tab, prompt.take(), queued=True))

    def warn_of_picture(self) -> None:
        """Warn the user if the model will not get the attached picture."""
        if self._app.manager is not None and self._app.manager.settings.llm.vision == "no":
            self._app.flash(_("Images are disabled: llm.vision is “no” in config.toml."))

    # -- commands ------------------------------------------------------------------------------------------------------

    async def _command(
        self,
        tab: ConversationTab | None,
        line: slash_commands.Line,
        text: str,
        *,
        queued: bool,
        question: QuestionView | None,
    ) -> None:
        built_in = slash_commands.BUILT_IN.get(line.name)
        if built_in is not None and (not line.words or built_in.words):
            if tab is not None and tab is not self._app.tabs.current:
                self._app.tabs.show(tab)  # commands act on the tab that is shown
            await self._app.do(built_in.id, line.words)
        elif built_in is not None:
            self._put_back(tab, text)
            problem = _("/{name} takes no arguments. Start with // to send the text as a message.")
            self._app.report(problem.format(name=line.name))
        elif tab is None:
            self._put_back(tab, text)
            self._app.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
        elif (command := (await self._sources.own_commands())[0].get(line.name)) is not None:
            await self._send(tab, command.message(line.words), queued=queued, question=question)
        elif line.name in await self._sources.tasks_and_skills() or await asyncio.to_thread(_is_path, line.name):
            await self._send(tab, text, queued=queued, question=question)  # memory adds what a task or skill says
        else:
            self._put_back(tab, text)
            problem = _(
                "Unknown command /{name}. Type / to list commands, or // to send text that starts with a slash."
            )
            self._app.report(problem.format(name=sanitize_line(line.name, 40)))


def _is_path(name: str) -> bool:
    """Whether the root of the file system has an entry of this name."""
    return bool(name) and os.path.lexists(f"/{name}")
