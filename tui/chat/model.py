"""The chat as blocks: a conversation's events and frames, folded.

`blocks` follows from the events alone, so live, reload and replay show the same; `tail` has what is transient (the
answer that streams, notices) and comes after it. An action and its observation share one block, which shows what the
action prints until its result is there. An answer that streamed becomes its event's block: same object, same text,
nothing is drawn twice.

The view reads `blocks`, `tail` and `touched`, and is notified through `changed` only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from core.events import (
    CONVERSATION_TITLE,
    Action,
    ActionConfirmationStatus,
    AgentDelegateAction,
    AgentFinishAction,
    AgentRejectAction,
    AgentState,
    AgentStateChangedObservation,
    AgentThinkAction,
    ChangeAgentStateAction,
    CheckpointObservation,
    CmdOutputObservation,
    CondensationAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileDownloadObservation,
    Frame,
    LoopDetectionObservation,
    MessageAction,
    ModeAction,
    Observation,
    PermissionAction,
    PlanAction,
    RecallObservation,
    SecretMaskedObservation,
    Status,
    TaskTrackingAction,
    TerminalOutput,
    TokenDelta,
    UndoObservation,
    UnknownAction,
    UnknownObservation,
)
from core.events.actions import reasoning_of, said_and_thought
from core.events.output import OutputBuffer
from core.import_export.agents.names import is_agent_record
from core.status_messages import RETRY_STATUS
from core.store.blobs import picture_urls
from tui.approval.risk_text import asked_line
from tui.chat.blocks import Block, Kind, Mark
from tui.chat.event_text import (
    HIDDEN,
    REDACTED,
    STATE_NOTES,
    Result,
    call_title,
    clean,
    kind_of,
    orphan_title,
    output,
    path_of,
    plan_of,
    recalled_block,
    result_of,
)
from tui.chat.reverted_turns import RevertedTurns
from tui.chat.text_pieces import MarkdownSplitter, PieceKind
from tui.i18n import _, counted, in_words
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.mode_words import mode_words
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from tui.terminal_io.graphics.picture_cells import Pictures

READY = "STATUS$READY"
DETAIL_CELLS, REFUSAL_CELLS = 200, 300
LIVE_LINES = 30
"""Lines that the block of a running action can show of what it prints: a screen."""
LIVE_BYTES = 16 * 1024
"""Bytes of them that are kept."""


class ChatModel(PaneModel):
    """The blocks of one conversation."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        """The blocks of stored events, in order; serials have no gaps."""
        self.pictures: Pictures | None = None
        """The pictures of the conversation; set by the owner of its log."""
        self.touched: set[Block] = set()
        """Blocks that changed since the view last emptied this."""
        self.first_id: int | None = None
        """The id of the oldest loaded event; older ones exist if it is above 0."""
        self._event_id = -1
        self._calls: dict[int, Block] = {}
        self._orphans: dict[int, Block] = {}
        self._printed: dict[int, OutputBuffer] = {}
        """What running actions have printed, by their ids."""
        self._left_running: Block | None = None
        self._answer: Block | None = None
        self._reasoning: Block | None = None
        self._streaming: int | None = None
        self._plan: Block | None = None
        self._statuses: dict[str, Block] = {}
        self._reverted = RevertedTurns()

    @property
    def moves(self) -> int:
        """How often blocks were hidden or restored, which moves everything after them."""
        return self._reverted.moves

    @property
    def tail(self) -> list[Block]:
        """Transient blocks, shown after `blocks`."""
        live = [block for block in (self._reasoning, self._answer) if block is not None]
        return [*live, *self._statuses.values()]

    def apply(self, envelope: Envelope) -> None:
        if self.first_id is None:
            self.first_id = envelope.id
        if envelope.source is EventSource.AGENT:
            self._clear_notices()
        self._fold(envelope)
        self.notify()

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        if not envelopes:
            return
        page = ChatModel()
        page._orphans, page._reverted = self._orphans, self._reverted.for_older_page()
        for envelope in envelopes:
            page._fold(envelope)
        self.touched |= self._reverted.absorb(page.blocks, page._reverted)
        first = self.blocks[0].serial if self.blocks else 0
        for offset, block in enumerate(reversed(page.blocks), start=1):
            block.serial = first - offset
        self.blocks[:0] = page.blocks
        self.touched |= page.touched - set(page.blocks)
        self._calls = page._calls | self._calls
        self.first_id = envelopes[0].id
        if self._plan is None:
            self._plan = page._plan
        elif page._plan is not None:
            page._plan.folded = True
            page._plan.touch()
        self.notify()

    def apply_frame(self, frame: Frame) -> None:
        match frame:
            case TokenDelta():
                self._stream(frame)
            case TerminalOutput(is_echo=False) if frame.cause in self._calls:
                self._print(frame)
            case Status(id=id) if id == CONVERSATION_TITLE:
                return
            case Status(message=""):
                self._statuses.pop(frame.id, None)
            case Status():
                self._show_status(frame)
            case _:
                return
        self.notify()

    def toggle(self, block: Block) -> None:
        block.folded = not block.folded
        self._touch(block)
        self.notify()

    def reveal(self, event_id: int) -> Block | None:
        """Unfold the loaded block that shows an event, and the line that hides it if it is undone.

        Returns the block; if none shows the event, the last one before it; None if all blocks come later.
        """
        revealed: Block | None = None
        for block in self.blocks:
            for shown in (*block.undone, block):
                if event_id >= 0 and event_id in (shown.event_id, shown.result_id):
                    self._unfold(shown)
                    self._unfold(block)
                    revealed = block
        if revealed is not None:
            self.notify()
            return revealed
        at = bisect_right(self.blocks, event_id, key=lambda block: block.event_id)
        return self.blocks[at - 1] if at else None

    def _unfold(self, block: Block) -> None:
        if block.folded and block.can_fold:
            block.folded = False
        self._touch(block)

    def _touch(self, block: Block) -> None:
        block.touch()
        self.touched.add(block)

    def _add(self, block: Block) -> Block:
        block.event_id = self._event_id
        block.serial = self.blocks[-1].serial + 1 if self.blocks else 0
        self.blocks.append(block)
        block.touch()
        return block

    def _print(self, frame: TerminalOutput) -> None:
        block = self._calls[frame.cause]
        printed = self._printed.get(frame.cause)
        if printed is None:
            printed = self._printed[frame.cause] = OutputBuffer(LIVE_BYTES)
            block.live = lambda: output(printed.last(LIVE_LINES))
        printed.feed(frame.data)
        self._touch(block)

    def _stream(self, delta: TokenDelta) -> None:
        if delta.cause != self._streaming:
            self._drop_stream()
            self._streaming = delta.cause
        if delta.channel == "reasoning":
            if self._reasoning is None:
                self._reasoning = Block(Kind.THOUGHT, open=MarkdownSplitter(Kind.THOUGHT), folded=False)
            block = self._reasoning
        else:
            if self._answer is None:
                self._answer = Block(Kind.AGENT, open=MarkdownSplitter())
            block = self._answer
        assert block.open is not None
        block.open.feed(delta.text)
        block.touch()

    def _drop_stream(self) -> None:
        self._answer = self._reasoning = self._streaming = None

    def _show_status(self, status: Status) -> None:
        if status.id == RETRY_STATUS:
            self._drop_stream()  # the model starts its answer again
        if status.id == READY:
            self._clear_notices()  # the steps that led there
        mark = Mark.FAILED if status.level == "error" else Mark.NONE
        block = Block(Kind.STATUS, clean(in_words(status.message), DETAIL_CELLS), mark=mark)
        block.touch()
        self._statuses[status.id] = block

    def _clear_notices(self) -> None:
        """Remove notices when the agent answers; an error stays until it is cleared."""
        self._statuses = {key: block for key, block in self._statuses.items() if block.mark is Mark.FAILED}

    def _fold(self, envelope: Envelope) -> None:
        event, self._event_id = envelope.event, envelope.id
        self._reverted.fold(self.blocks, envelope)
        self._add_reasoning(event)
        if isinstance(event, ChangeAgentStateAction) and event.agent_state is AgentState.USER_CONFIRMED:
            self._mark_call(self._calls.values(), Mark.AWAITING, Mark.RUNNING)
        if isinstance(event, RecallObservation) and (block := recalled_block(event)) is not None:
            self._add(block)
        if isinstance(event, HIDDEN) or getattr(event, "hidden", False):
            return
        if isinstance(event, AgentStateChangedObservation):
            self._fold_state(event)
        elif isinstance(event, Observation):
            self._fold_observation(event, envelope.cause)
        elif envelope.source is EventSource.USER and isinstance(event, MessageAction):
            if not event.queued:  # a message of its own follows when it is sent
                self._fold_user_message(event)
        elif isinstance(event, Action):
            self._fold_action(event, envelope.id)

    def _add_reasoning(self, event: Event) -> None:
        """Add what the model thought in a folded block before what it then said or did."""
        text = clean(reasoning_of(event)).strip()
        if text:
            self._reasoning = None
            self._add(Block(Kind.THOUGHT, text=text))

    def _fold_user_message(self, event: MessageAction) -> None:
        pictures = tuple(picture_urls(event))
        attached = len(event.file_urls or ())
        text = clean(event.content)
        if attached:
            text += "\n" + counted(attached, "[{n} attachment]", "[{n} attachments]")
        self._statuses.clear()
        self._add(Block(Kind.USER, text=text.strip("\n"), folded=False, pictures=pictures))

    def _fold_action(self, event: Action, event_id: int) -> None:
        match event:
            case MessageAction():
                self._show_answer(event.content)
            case AgentThinkAction():
                said, thought = said_and_thought(event)
                self._show_answer(said)
                self._add(Block(Kind.THOUGHT, text=clean(thought).strip()))
            case AgentFinishAction():
                self._finish(event)
            case AgentRejectAction():
                self._show_answer(event.thought_text)
                self._add(Block(Kind.ERROR, clean(event.message), mark=Mark.REJECTED))
            case CondensationAction():
                self._fold_condensation(event)
            case PlanAction(approved=True):
                self._statuses.clear()
                self._settle(self._add(Block(Kind.TOOL, _("You approved the plan"))), plan_of(event, Mark.OK))
            case PlanAction():
                self._detail(_("You asked for another plan. The agent changes nothing until you approve it."))
            case PermissionAction():
                self._detail(event.message)
            case ModeAction():
                self._detail(_("Mode: {mode}").format(mode=mode_words(event.mode)))
            case UnknownAction():
                self._detail(_("unknown event {kind}").format(kind=kind_of(event)) + f" {event.message}")
            case _ if event.runnable or isinstance(event, AgentDelegateAction):
                self._call(event, event_id)
            case _:
                self._detail(f"{event.kind} {event.message}")

    def _fold_condensation(self, event: CondensationAction) -> None:
        """Add a block that unfolds to the summary; one line if there is none; nothing if nothing was condensed."""
        if not (event.forgotten or event.summary):
            if event.note:
                self._detail(event.note)
            return
        text = counted(
            len(event.forgotten),
            "{n} older event is no longer shown to the model",
            "{n} older events are no longer shown to the model",
        )
        if not event.summary:
            self._detail(f"{text}. {event.note}" if event.note else text)
            return
        title = counted(len(event.forgotten), "condensed: {n} event, summary", "condensed: {n} events, summary")
        block = self._add(Block(Kind.TOOL, title, clean(event.summary), Mark.OK, body=PieceKind.TEXT, shown=1))
        self._touch(block)

    def _show_answer(self, content: str) -> Block | None:
        """Show what the agent says; an answer that streamed becomes its block."""
        block, text = self._answer, clean(content)
        self._drop_stream()
        if not text.strip():
            return None
        if block is None:
            return self._add(Block(Kind.AGENT, text=text, folded=False))
        block.text, block.open, block.folded = text, None, False
        return self._add(block)

    def _finish(self, event: AgentFinishAction) -> None:
        message = self._show_answer(event.thought_text)
        text = clean(event.final_thought)
        if message is not None and message.text.strip() == text.strip():
            text = ""
        self._add(Block(Kind.FINISH, _("Finished"), text, Mark.OK, folded=False))

    def _call(self, event: Action, event_id: int) -> None:
        self._show_answer(event.thought_text)
        awaits = event.confirmation is ActionConfirmationStatus.AWAITING_CONFIRMATION
        mark = Mark.AWAITING if awaits else Mark.RUNNING
        title = call_title(event)
        if (block := self._orphans.pop(event_id, None)) is not None:
            block.title = title
            self._touch(block)
        elif not awaits and (block := self._take_awaiting_call(title)) is not None:
            block.mark = mark
            self._calls[event_id] = block
            self._touch(block)
        else:
            reason = asked_line(event) if awaits else ""
            block = Block(Kind.TOOL, title, mark=mark, meta=reason, body=PieceKind.OUTPUT, path=path_of(event))
            self._calls[event_id] = self._add(block)
        if isinstance(event, TaskTrackingAction) and event.task_list and block.body is not PieceKind.PLAN:
            self._settle(block, plan_of(event, mark))  # the action has the plan already

    def _take_awaiting_call(self, title: str) -> Block | None:
        """Take the block of an action that waited for approval and, as V0 writes it, comes again when confirmed."""
        for event_id, block in self._calls.items():
            if block.mark is Mark.AWAITING and block.title == title:
                del self._calls[event_id]
                return block
        return None

    def _fold_observation(self, event: Observation, cause: int | None) -> None:
        block = self._calls.pop(cause, None) if cause is not None else None
        self._printed.pop(-1 if cause is None else cause, None)
        if block is not None:
            self._settle(block, result_of(event))
            if isinstance(event, CmdOutputObservation):
                self._follow_shell(block)
        else:
            self._fold_other_observation(event, cause)
        for refusal in event.refusals:
            self._add(Block(Kind.NOTE, sanitize_line(in_words(refusal.text), REFUSAL_CELLS), mark=Mark.INTERRUPTED))

    def _fold_other_observation(self, event: Observation, cause: int | None) -> None:
        match event:
            case ErrorObservation():
                self._show_answer(event.thought)
                self._error(event.content)
            case LoopDetectionObservation():
                title = _("The agent seems stuck in a loop")
                self._add(Block(Kind.ERROR, title, output(event.content), Mark.INTERRUPTED))
            case UndoObservation():
                self._undo_note(event)
            case SecretMaskedObservation(masked=kinds):
                for kind in kinds:
                    self._add(Block(Kind.NOTE, REDACTED.format(kind=clean(kind)), mark=Mark.INTERRUPTED))
            case CheckpointObservation():
                pass  # the event log has it
            case FileDownloadObservation():
                self._detail(event.message)
            case UnknownObservation() if is_agent_record(kind_of(event)):
                pass  # a record of another agent's session, which the event log has
            case UnknownObservation():
                self._detail(
                    _("unknown event {kind}").format(kind=kind_of(event)) + f" {event.message or event.content}"
                )
            case _ if cause is not None:
                self._orphan(event, cause)
            case _:
                self._detail(f"{event.kind} {event.message or event.content}")

    def _undo_note(self, event: UndoObservation) -> None:
        """Show an undo that left no line in place of what it undid."""
        if not event.done:
            self._add(Block(Kind.NOTE, _("Undo failed"), mark=Mark.FAILED, meta=clean(event.why)))
        elif event.content:
            self._detail(event.content)

    def _orphan(self, event: Observation, cause: int) -> None:
        block = self._add(Block(Kind.TOOL, orphan_title(event), body=PieceKind.OUTPUT, path=path_of(event)))
        self._orphans[cause] = block
        self._settle(block, result_of(event))

    def _settle(self, block: Block, result: Result) -> None:
        block.mark, block.text, block.meta, block.live = result.mark, result.text, result.meta, None
        block.result_id = self._event_id
        block.body, block.shown, block.folded = result.body, result.shown, result.folded
        block.language = result.language
        block.pictures, block.pictures_fold = result.pictures, result.pictures_fold
        if block.body is PieceKind.PLAN:
            self._supersede_plan(block)
        self._touch(block)

    def _supersede_plan(self, block: Block) -> None:
        if self._plan is not None and self._plan is not block:
            self._plan.folded = True
            self._touch(self._plan)
        self._plan = block

    def _follow_shell(self, block: Block) -> None:
        """Mark a command that was left running as in the background once another one has ended."""
        if block.mark is Mark.RUNNING:
            self._left_running = block
        elif (left := self._left_running) is not None:
            left.mark, left.meta = Mark.NONE, _("continued in the background")
            self._left_running = None
            self._touch(left)

    def _error(self, content: str) -> None:
        """Show an error: its first line as the title, what to do below."""
        self._drop_stream()
        title, _newline, remedy = output(content).partition("\n")
        self._add(Block(Kind.ERROR, title, remedy.strip(), Mark.FAILED, body=PieceKind.TEXT, folded=False))

    def _fold_state(self, event: AgentStateChangedObservation) -> None:
        match event.agent_state:
            case AgentState.AWAITING_USER_CONFIRMATION:
                self._mark_call(reversed(self._calls.values()), Mark.RUNNING, Mark.AWAITING)
            case AgentState.USER_CONFIRMED:
                self._mark_call(self._calls.values(), Mark.AWAITING, Mark.RUNNING)
            case AgentState.FINISHED if self.blocks and self.blocks[-1].kind is Kind.FINISH:
                pass
            case state if state in STATE_NOTES:
                self._state_note(state, event.reason)
            case _:
                pass

    def _mark_call(self, calls: Iterable[Block], old: Mark, new: Mark) -> None:
        for block in calls:
            if block.mark is old:
                block.mark, block.meta = new, ""
                self._touch(block)
                return

    def _state_note(self, state: AgentState, reason: str) -> None:
        if state is AgentState.STOPPED and self._answer is not None and self._answer.open is not None:
            self._show_answer(self._answer.open.text)  # keep what was said until then
        self._drop_stream()
        mark = Mark.FAILED if state is AgentState.ERROR else Mark.INTERRUPTED
        text = clean(reason).strip()
        if self.blocks and text and text.startswith(self.blocks[-1].title) and self.blocks[-1].kind is Kind.ERROR:
            return  # the error itself has just been shown
        self._add(Block(Kind.NOTE, STATE_NOTES[state], mark=mark, meta=text))

    def _detail(self, text: str) -> None:
        self._add(Block(Kind.DETAIL, sanitize_line(text, DETAIL_CELLS)))
