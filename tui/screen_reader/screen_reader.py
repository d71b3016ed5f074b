"""The screen-reader mode: a conversation as plain lines on the normal screen, typed and answered line by line.

It has the same sessions as the workspace. Nothing is drawn or repainted; each line is written once. Ctrl+C stops the
agent, Ctrl+D quits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from core.errors import ExitStatus, HandloomError, UsageError
from core.events import CONVERSATION_TITLE, Envelope, EventSource, Frame, MessageAction, Status
from core.headless import compact_argument
from core.library.conversation_ids import own_id
from core.stream import EventStreamSubscriber
from tui.i18n import _, in_words
from tui.screen_reader.answers import TrustQuestion, answer, question_about, question_lines
from tui.screen_reader.event_lines import event_lines, halt_lines, halt_options, plan_lines, status_line
from tui.terminal_io.glyphs import in_ascii
from tui.terminal_io.sanitizer import sanitize

if TYPE_CHECKING:
    from core.controller.exit_reasons import HaltOption
    from core.conversations.conversation_manager import ConversationManager
    from core.session.agent_session import AgentSession
    from tui.approval.question import Question
    from tui.cli.options import StartOptions

RECENT_EVENTS = 20
"""Events that are read again when a conversation is opened."""
HOW_TO = _("Type a message and press Enter. Ctrl+C stops the agent, Ctrl+D quits. End a line with \\ to continue it.")
NO_MODEL = _("No model is configured. Pass --model (PROVIDER/NAME, scripted:FILE or demo) or set HANDLOOM_MODEL.")


async def run(options: StartOptions, connect: Callable[[], Awaitable[ConversationManager]]) -> int:
    """Open the conversation that the workspace would open, and run until the input ends. Raises HandloomError."""
    manager = await connect()
    try:
        session = await _open(options, manager)
        await manager.attach(session.info.id)
        await ScreenReader(session, TrustQuestion(manager.trust, lambda: session.memory.folder)).run()
    finally:
        await manager.aclose()
    return ExitStatus.FINISHED


async def _open(options: StartOptions, manager: ConversationManager) -> AgentSession:
    wanted = options.resume or ""
    if not wanted and not options.needs_new_conversation:
        here = [c for c in await manager.list() if c.workspace == options.workspace and not c.parent]
        wanted = here[0].id if here else ""
    if wanted:
        return await manager.open(await own_id(manager.store, wanted), model=options.model or "")
    model = options.model or manager.settings.model
    if not model:
        raise UsageError(NO_MODEL)
    return await manager.create(workspace=options.workspace, model=model, repository=options.repository)


def _keyboard() -> int:
    """Return a descriptor to read typed lines from.

    The terminal is opened again to read it without blocking, because Ctrl+C drops what was typed. Setting that on
    standard input would also change it for the program that has the terminal next.
    """
    given = sys.stdin.fileno()
    with suppress(OSError):  # no terminal, or one that cannot be opened by its name
        return os.open(os.ttyname(given), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return given


class ScreenReader:
    """One conversation, read out and answered."""

    def __init__(self, session: AgentSession, trust: TrustQuestion) -> None:
        self._session = session
        self._trust = trust
        self._question: Question | None = None
        """The question that was read out last."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        """Typed lines; None is the end of the input."""
        self._typed = b""
        self._is_prompting = False
        """Whether the cursor is behind a prompt, and nothing was typed yet."""
        self._executing = asyncio.Lock()
        """Held while a typed line is carried out: intermediate states are not reported."""
        self._reported = -1
        """The latest event when the state was last reported."""

    async def run(self) -> None:
        """Read and answer until the input ends."""
        session, loop = self._session, asyncio.get_running_loop()
        session.delegation.attended = True
        opened = _("Handloom. Model: {model}. Folder: {folder}.")
        self._print(opened.format(model=session.active_model.name, folder=session.info.workspace))
        if session.runtime.isolation == "none":
            self._print(_("No sandbox: commands run directly on this machine with your permissions."))
        for envelope in await session.stream.page(limit=RECENT_EVENTS):
            self._print(*event_lines(envelope))
        self._print(HOW_TO)
        session.stream.subscribe(EventStreamSubscriber.MAIN, self._on_event, "reader")
        unwatch = session.frames.watch(self._on_frame)
        loop.add_signal_handler(signal.SIGINT, self._stop_agent)
        loop.add_signal_handler(signal.SIGTERM, self._lines.put_nowait, None)
        typed = _keyboard()
        loop.add_reader(typed, self._read, typed)
        if asks := await self._trust.begin():
            self._print(*asks)
            self._prompt(_("Answer: "))
        reporter = asyncio.create_task(self._report())
        try:
            await self._answer_lines()
        finally:
            reporter.cancel()
            loop.remove_reader(typed)
            loop.remove_signal_handler(signal.SIGINT)
            unwatch()
            session.stream.unsubscribe(EventStreamSubscriber.MAIN, "reader")
            if session.state.is_busy:
                await session.interrupt()
            self._print(_("Quit. The conversation is saved."))

    def _print(self, *lines: str) -> None:
        if lines and self._is_prompting:
            sys.stdout.write("\n")
            self._is_prompting = False
        for line in lines:
            sys.stdout.write(sanitize(line) + "\n")
        sys.stdout.flush()

    async def _on_event(self, envelope: Envelope) -> None:
        typed_here = isinstance(envelope.event, MessageAction) and envelope.source is EventSource.USER
        if not typed_here:
            self._print(*event_lines(envelope))

    def _on_frame(self, frame: Frame) -> None:
        if isinstance(frame, Status) and frame.message and frame.id != CONVERSATION_TITLE:
            label = _("Error") if frame.level == "error" else _("Status")
            self._print(f"{label}: {in_ascii(in_words(frame.message))}")

    async def _report(self) -> None:
        """Report the state and open questions whenever the agent stops."""
        session = self._session
        while True:
            await session.settled()
            async with self._executing:
                pass
            await session.settled()
            if not self._trust.is_open and session.stream.latest_id != self._reported:
                self._reported = session.stream.latest_id
                await self._report_state()
            await session.changed()

    async def _report_state(self) -> None:
        session, state = self._session, self._session.state
        if state.halt is not None:
            self._print(*halt_lines(state.halt, state.reason))
            self._prompt(_("Answer: "))
        elif state.awaiting is not None:
            (envelope,) = await session.stream.read(after=state.awaiting - 1, limit=1)
            self._question, reach = await question_about(session, envelope)
            self._print(*question_lines(self._question, reach))
            self._prompt(_("Answer: "))
        else:
            self._print(status_line(state))
            if state.planning and (tasks := await session.planning.tasks()):
                self._print(*plan_lines(tasks))
            self._prompt(_("You: "))

    def _prompt(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_prompting = True

    def _read(self, typed: int) -> None:
        try:
            got = os.read(typed, 65536)
        except BlockingIOError:  # Ctrl+C has dropped it
            return
        self._typed += got
        *lines, self._typed = self._typed.split(b"\n")
        self._is_prompting = self._is_prompting and not lines
        for line in lines:
            self._lines.put_nowait(line.decode("utf-8", "replace"))
        if not got:
            asyncio.get_running_loop().remove_reader(typed)
            self._lines.put_nowait(None)

    def _stop_agent(self) -> None:
        if self._session.state.is_busy or self._session.state.awaiting is not None:
            self._print(_("Stopping the agent."))
            self._stopping = asyncio.create_task(self._session.interrupt())
        else:
            self._print(_("Nothing is running. Ctrl+D quits."))

    async def _answer_lines(self) -> None:
        begun: list[str] = []
        while (line := await self._lines.get()) is not None:
            if line.endswith("\\"):
                begun.append(line[:-1])
                continue
            text = "\n".join([*begun, line]).strip()
            begun.clear()
            if text:
                try:
                    async with self._executing:
                        await self._answer(text)
                except HandloomError as error:
                    self._print(f"{_('Error')}: {error}")

    async def _answer(self, text: str) -> None:
        session, state = self._session, self._session.state
        if self._trust.is_open:
            await self._answer_trust(text)
        elif text == "/trust":
            self._print(*await self._trust.ask_again(session.memory.along))
            self._prompt(_("Answer: ") if self._trust.is_open else _("You: "))
        elif state.halt is not None:
            await self._answer_halt(text, halt_options(state.halt))
        elif state.planning and text.lower() == "yes" and (tasks := await session.planning.tasks()):
            await session.planning.approve(tasks)
        elif state.awaiting is not None:
            await self._answer_question(text, state.awaiting)
        elif (keep := compact_argument(text)) is not None:
            await session.compact(keep)
        else:
            await session.send(text)

    async def _answer_question(self, text: str, awaiting: int) -> None:
        question = self._question
        if question is None or question.action_id != awaiting:
            self._print(_("The question has just appeared. Read it, then answer again."))
        elif problem := await answer(self._session, question, text):
            self._print(problem)
            self._prompt(_("Answer: "))

    async def _answer_trust(self, text: str) -> None:
        self._print(*await self._trust.answer(text))
        if self._trust.is_open:
            self._prompt(_("Answer: "))
            return
        await self._session.memory.refresh()
        self._reported = self._session.stream.latest_id
        await self._report_state()

    async def _answer_halt(self, text: str, options: Sequence[HaltOption]) -> None:
        if text.isdecimal() and 0 < int(text) <= len(options):
            await self._session.recover(options[int(text) - 1])
        else:
            self._print(_("Answer with one of the numbers above."))
