"""What is written in the prompt, and where it goes: a message, the queue, a command, the shell. A mixin of the app.

Also what the prompt's lists offer: files of the workspace, events of the conversation, commands. Nothing that was
written is lost: what cannot be carried out goes back into the prompt, with the reason.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from tui.commands import keyed
from tui.i18n import _
from tui.prompt import Prompt, references, slash_commands
from tui.prompt.completion_list import Row
from tui.prompt.external_editor import EditorError, edited
from tui.prompt.file_picker import FileIndex, list_files
from tui.prompt.prompt_history import LIMIT
from tui.prompt.triggers import Kind
from tui.prompt.view import SHELL
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.events import Envelope
    from tui.approval.view import QuestionView
    from tui.workspace.conversation import ConversationTab


FOUND = 50
"""Rows of a list: whoever does not see it among them types on."""
EVENTS_BACK = 200
"""Events among which a reference is looked for; older ones are referred to by typing the number."""
LABEL_CELLS = 300


class Composing(Frame):
    """Sending, and what helps to write."""

    said_early: tuple[str, ...] = ()
    """What was sent before there was a conversation: quick hands lose nothing."""
    _listing: tuple[str, asyncio.Task[FileIndex]] | None = None
    """The folder that was listed last, and what is in it, or will be."""
    _events: tuple[tuple[str, int], list[Envelope]] | None = None
    """The conversation and its newest event when its events were read, and those that one may refer to."""

    def serve_prompt(self) -> None:
        """Give the prompt what its lists offer."""
        prompt = self.workspace.prompt
        prompt.folder = self.options.workspace
        prompt.load_history = self._said_before
        prompt.completer.sources = {
            Kind.FILE: self._find_files,
            Kind.EVENT: self._find_events,
            Kind.COMMAND: self.find_commands,
        }

    # -- sending -------------------------------------------------------------------------------------------------------

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        """Carry out what was written; where that cannot be, it goes back into the prompt."""
        tab = self.living  # a key that came behind Enter may have shown another tab
        if message.tab is not None:
            tab = next((one for one in self.living_tabs if one is message.tab), None)
        self.workspace.notice.clear()
        if tab is None and not slash_commands.parse(message.text):
            self.said_early += (message.text,)
            self.flash(_("The message is sent when the conversation has opened."))
            if not self.is_starting:
                self.attempt(self.new_conversation())
            return
        self.attempt(self.submit(tab, message.text, question=message.question))

    def say_early(self, tab: ConversationTab) -> None:
        """Say what was sent before there was this conversation, in order."""
        said, self.said_early = self.said_early, ()
        if said:
            self.attempt(self._say_all(tab, said))

    async def _say_all(self, tab: ConversationTab, texts: Sequence[str]) -> None:
        for place, text in enumerate(texts, 1):
            try:
                await self.submit(tab, text)
            except BaseException:
                self.said_early += tuple(texts[place:])
                self.take_back_early()
                raise

    def take_back_early(self) -> None:
        """What was sent before there was a conversation stands in the prompt again, in front of what does."""
        said, self.said_early = self.said_early, ()
        if said:
            self.workspace.prompt.put("\n".join([*said, self.workspace.prompt.text]).strip())

    async def submit(
        self, tab: ConversationTab | None, written: str, *, queued: bool = False, question: QuestionView | None = None
    ) -> None:
        """Carry out what was written, now or once the agent rests.

        A message under a question about an action denies the action, and the agent reads the message as the reason.
        """
        with self._kept(tab, written):
            if (line := slash_commands.parse(written)) is not None:
                await self._command(tab, line, written, queued=queued, question=question)
            elif tab is None or not await self.consented(tab):
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
        if self.current is tab and not self.workspace.prompt.text:
            self.workspace.prompt.put(written)

    async def _send(
        self, tab: ConversationTab, written: str, *, queued: bool = False, question: QuestionView | None = None
    ) -> None:
        chips = self.workspace.prompt.chips
        if not queued and self.current is tab:
            self.workspace.chat.go("end")
        text, urls = chips.expanded(written), [picture.url for picture in chips.pictures(written)]
        context = await self._referred(tab, chips.typed(written))
        if question is not None and await self.deny_with(tab, question, "" if urls else text + context):
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
        command = self.workspace.prompt.chips.expanded(written)[len(SHELL) :].strip()
        if not command:
            self._put_back(tab, written)
            self.flash(_("Type a command after the exclamation mark."))
            return
        self.workspace.chat.go("end")
        await tab.session.user_control.run_command(command)

    async def do_prompt_queue(self) -> None:
        prompt, tab = self.workspace.prompt, self.living
        if await prompt.complete() or tab is None or not prompt.text.strip():
            return
        line = slash_commands.parse(prompt.text)
        if prompt.text.startswith(SHELL) or (line is not None and line.name in slash_commands.BUILT_IN):
            self.flash(keyed(_("Only messages can be queued. Press {prompt.send} to run this.")))
            return
        self.attempt(self.submit(tab, prompt.take(), queued=True))

    def on_prompt_told(self, message: Prompt.Told) -> None:
        """What the prompt could not do."""
        self.report(message.text)

    def on_prompt_picture_attached(self) -> None:
        """Say so where the model will not be shown it."""
        if self.manager is not None and self.manager.settings.llm.vision == "no":
            self.flash(_("Images are disabled: llm.vision is “no” in config.toml."))

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
            await self.do(built_in.id, line.words)
            return
        if built_in is not None:
            self._put_back(tab, written)
            told = _("/{name} takes no arguments. Start with // to send the text as a message.")
            self.report(told.format(name=line.name))
            return
        if tab is None:
            self._put_back(tab, written)
            self.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
            return
        own, _problems = await self.own_commands()
        if (command := own.get(line.name)) is not None:
            await self._send(tab, command.message(line.words), queued=queued, question=question)
        elif line.name in await self.called():
            await self._send(tab, written, queued=queued, question=question)  # what it stands for is recalled
        elif await asyncio.to_thread(_is_path, line.name):
            await self._send(tab, written, queued=queued, question=question)  # a path, said first
        else:
            self._put_back(tab, written)
            told = _("Unknown command /{name}. Type / to list commands, or // to send text that starts with a slash.")
            self.report(told.format(name=sanitize_line(line.name, 40)))

    # -- files and events ----------------------------------------------------------------------------------------------

    @property
    def _folder(self) -> str:
        return self.current.folder if self.current is not None else self.options.workspace

    async def _find_files(self, query: str) -> Sequence[Row]:
        folder = self._folder
        known = self._listing
        if known is None or known[0] != folder or (not query and known[1].done()):  # anew each time that it opens
            known = self._listing = folder, asyncio.create_task(asyncio.to_thread(_indexed, folder))
        index = await asyncio.shield(known[1])  # one listing for all keys that are typed meanwhile
        return [Row(path, value=path) for path in await asyncio.to_thread(index.find, query, FOUND)]

    async def _find_events(self, query: str) -> Sequence[Row]:
        if self.current is None:
            return []
        log = self.current.log
        newest = (self.current.id, log.latest_id)
        if self._events is None or self._events[0] != newest:
            self._events = newest, references.recent(await log.page(limit=EVENTS_BACK))
        found = (envelope for envelope in self._events[1] if references.matches(envelope, query))
        return [_event_row(envelope) for envelope in islice(found, FOUND)]

    async def _said_before(self) -> Sequence[str]:
        await self.connected.wait()
        return await self.manager.said(self._folder, LIMIT) if self.manager is not None else []

    # -- the user's editor ---------------------------------------------------------------------------------------------

    def do_prompt_editor(self) -> None:
        self.attempt(self._edit())

    async def _edit(self) -> None:
        """Hand the terminal to the user's editor. The agents go on meanwhile; nothing is painted."""
        prompt = self.workspace.prompt
        prompt.leave_list()
        try:
            with self.batch_update(), self.suspend(), _deaf_to_ctrl_c():
                left = await _left_by_editor(prompt.text)
        except SuspendNotSupported:
            self.report(
                keyed(
                    _(
                        "An editor cannot be opened in this terminal. Type here instead; "
                        "{prompt.newline} inserts a new line."
                    )
                )
            )
        else:
            if isinstance(left, EditorError):
                self.report(str(left))
            elif left != prompt.text:
                prompt.put(left)
        prompt.focus()


def _indexed(folder: str) -> FileIndex:
    return FileIndex(list_files(Path(folder)))


async def _left_by_editor(text: str) -> str | EditorError:
    """The edited text, or why there is none: `App.suspend` does not take the terminal back after an exception."""
    try:
        return await asyncio.to_thread(edited, text, os.environ)
    except EditorError as error:
        return error


def _is_path(name: str) -> bool:
    """Whether there is something of this name at the root of the file system."""
    return bool(name) and os.path.lexists(f"/{name}")


def _event_row(envelope: Envelope) -> Row:
    text = sanitize_line(" ".join(references.said(envelope)[:LABEL_CELLS].split()), LABEL_CELLS)
    kind = envelope.event.kind
    what = _("result of {kind}").format(kind=kind) if references.is_result(envelope) else kind
    return Row(f"#{envelope.id} {what}  {text}", str(envelope.source), str(envelope.id))


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """ctrl+c is the editor's, which is in the same group of processes. The editor itself hears it."""
    before = signal.signal(signal.SIGINT, lambda *_unused: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
