"""The user's answers to actions that wait, and what they allow from then on.

An answer names the action that was shown, so that only the first answer of two screens counts, and no answer is applied
to another action. What holds for the conversation, also its mode, is an event of its log, and so
survives a restart and a fork; in a conversation that was imported only what was answered here counts. What was allowed
in turns that are undone is revoked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from core.controller.state import Pending, State
from core.errors import UsageError
from core.events import (
    AgentState,
    ChangeAgentStateAction,
    ConsentAction,
    Envelope,
    Event,
    EventSource,
    ModeAction,
    PermissionAction,
    UndoAction,
    UndoObservation,
)
from core.security.confirmation import CHECKS, ConfirmMode, Verdict
from core.security.guard import MODE, Guard
from core.security.patterns import PatternError, parse, parse_all
from core.security.permissions import Permission, Scope, new_permission
from core.store.conversations import IMPORT, ConversationInfo
from core.store.reader import EventFilter
from core.stream import EventStream, EventStreamSubscriber

Add = Callable[[Event, int | None], Awaitable[Envelope]]
_APPROVAL_EVENTS = EventFilter(
    kinds=frozenset({"action:permission", "action:consent", "action:mode", "action:undo", "observation:undo"})
)


class Approval:
    """The answers and permissions of one conversation; `load` it first."""

    def __init__(
        self,
        *,
        stream: EventStream,
        info: ConversationInfo,
        guard: Guard,
        state: Callable[[], State],
        add: Add,
    ) -> None:
        self.guard = guard
        self.parent: Approval | None = None
        """The approval of the parent conversation, if this is a delegate: it stores the permissions."""
        self._default_mode = guard.mode
        """The mode of the settings."""
        self._undos: dict[int | None, UndoAction] = {}
        """Undo actions without an observation."""
        self._stream = stream
        self._info = info
        self._state = state
        self._add = add

    def share(self, parent: Approval) -> None:
        """Make this the approval of a delegate of that conversation."""
        self.parent, self.guard.parent = parent, parent.guard

    async def load(self) -> None:
        """Read the permissions and the mode from the log. Raises StoreError."""
        counts = self._info.origin != IMPORT
        after = -1
        while page := await self._stream.read(after=after, where=_APPROVAL_EVENTS):
            for envelope in page:
                if isinstance(envelope.event, ConsentAction):  # others may have written what is before it
                    self.guard.conversation_permissions.clear()
                    self.guard.mode = self._default_mode
                    counts = envelope.event.given
                elif isinstance(envelope.event, ModeAction) and counts:
                    self.guard.mode = self._default_mode if envelope.event.own else ConfirmMode(envelope.event.mode)
                elif isinstance(envelope.event, PermissionAction) and counts:
                    self._apply(envelope)
                else:
                    self._revoke_undone(envelope)
            after = page[-1].id

    def watch(self) -> None:
        """Revoke permissions when turns are undone. Call once, after `load`."""
        types: list[type[Event]] = [UndoAction, UndoObservation]
        self._stream.subscribe(EventStreamSubscriber.RUNTIME, self._on_undo, "approval", types=types)

    def _revoke_undone(self, envelope: Envelope) -> list[Permission]:
        """Revoke and return what was allowed in turns that are undone. It stays revoked if they are redone."""
        event, undone = envelope.event, self._undos.pop(envelope.cause, None)
        if isinstance(event, UndoAction):
            self._undos[envelope.id] = event
        if undone is None or not (isinstance(event, UndoObservation) and event.done):
            return []
        if not undone.chat or undone.redoes is not None:
            return []
        granted = self.guard.conversation_permissions
        revoked = [p for p in granted if p.verdict is Verdict.ALLOW and _granted_by(p) >= undone.first]
        granted[:] = [p for p in granted if p not in revoked]
        return revoked

    async def _on_undo(self, envelope: Envelope) -> None:
        for permission in self._revoke_undone(envelope):
            revoked = PermissionAction(verdict="allow", pattern=str(permission.pattern), revoked=True)
            await self._stream.append(revoked, EventSource.ENVIRONMENT)

    async def store_mode(self, mode: ConfirmMode | str, *, own: bool = False) -> None:
        """Store the mode, so that it survives a restart; `own` means the mode of the settings. Raises StoreError."""
        await self._stream.append(ModeAction(mode=ConfirmMode(mode).value, own=own), EventSource.USER)

    def _apply(self, envelope: Envelope) -> None:
        event = envelope.event
        assert isinstance(event, PermissionAction)
        try:
            pattern = parse(event.pattern)
        except PatternError:  # of a newer version: it allows nothing here
            return
        same = [p for p in self.guard.conversation_permissions if (p.verdict, p.pattern) == (event.verdict, pattern)]
        permissions = [p for p in self.guard.conversation_permissions if p not in same]
        if not event.revoked:
            at = envelope.timestamp.isoformat(timespec="seconds")
            informed = event.informed or any(p.informed for p in same)
            id = f"c{envelope.id}"
            permissions.append(
                Permission(Verdict(event.verdict), pattern, Scope.CONVERSATION, "", at, self._info.id, id, informed)
            )
        self.guard.conversation_permissions[:] = permissions

    # -- answers of the user ---------------------------------------------------------------------------------------

    @property
    def mode(self) -> ConfirmMode:
        """How much the agent may do without asking."""
        return self.guard.mode

    def set_mode(self, mode: ConfirmMode | str) -> None:
        """Use this mode from the next answer on."""
        self.guard.mode = ConfirmMode(mode)

    async def permit(self, text: str, scope: Scope, verdict: Verdict = Verdict.ALLOW) -> None:
        """Allow or deny what these patterns match from now on. Raises UsageError, ConfigurationError, StoreError.

        If it is given while an action waits because of earlier events, it answers such questions too. ONCE keeps
        nothing.
        """
        informed = self._is_asked_by_check()
        try:
            patterns = parse_all(text)
        except PatternError as error:
            raise UsageError(str(error)) from None
        if scope is Scope.CONVERSATION:
            top = self
            while top.parent is not None:
                top = top.parent
            for pattern in patterns:
                await top._store(PermissionAction(verdict=verdict.value, pattern=str(pattern), informed=informed))
        elif scope is not Scope.ONCE:
            folder, id = self._info.workspace, self._info.id

            def add() -> None:
                self.guard.file.add(
                    new_permission(verdict, pattern, scope, folder=folder, conversation=id, informed=informed)
                    for pattern in patterns
                )

            await asyncio.to_thread(add)

    async def revoke(self, permission: Permission) -> None:
        """Revoke a permission or a denial. Raises as `permit`."""
        if permission.scope is Scope.CONVERSATION:
            pattern, verdict = str(permission.pattern), permission.verdict.value
            await self._store(PermissionAction(verdict=verdict, pattern=pattern, revoked=True))
        else:
            await asyncio.to_thread(self.guard.file.revoke, [permission.id])

    async def _store(self, event: PermissionAction) -> None:
        self._apply(await self._add(event, None))

    async def confirm(self, action_id: int | None = None) -> None:
        """Approve a waiting action, by default the one that is shown.

        Raises UsageError if the action does not wait any more.
        """
        await self._answer(AgentState.USER_CONFIRMED, self._waiting_id(action_id), "")

    async def confirm_allowed(self, action_id: int | None = None) -> None:
        """As `confirm`, and with it every other action that waits and is allowed as the permissions are now.

        What only the mode allows, which may have changed since, still waits for its own answer.
        """
        first = self._waiting_id(action_id)
        for pending in self._others_waiting(first):
            judged = await self.guard.judge(pending.action)
            if judged.verdict is Verdict.ALLOW and judged.rule != MODE.format(mode=self.guard.mode):
                await self._answer(AgentState.USER_CONFIRMED, pending.id, "")
        await self._answer(AgentState.USER_CONFIRMED, first, "")

    async def reject(self, reason: str = "", action_id: int | None = None) -> None:
        """Deny a waiting action. Raises as `confirm`.

        With a reason the agent goes on: each action behind it asks, unless it only reads. Without one none of them is
        carried out, and the agent rests.
        """
        await self._answer(AgentState.USER_REJECTED, self._waiting_id(action_id), reason)

    async def reject_denied(self, reason: str, action_id: int | None = None) -> None:
        """As `reject`, and deny every other waiting action that the permissions now deny."""
        first = self._waiting_id(action_id)
        for pending in self._others_waiting(first):
            if (await self.guard.judge(pending.action)).verdict is Verdict.DENY:
                await self._answer(AgentState.USER_REJECTED, pending.id, reason)
        await self._answer(AgentState.USER_REJECTED, first, reason)

    async def _answer(self, answer: AgentState, action_id: int, reason: str) -> None:
        await self._add(ChangeAgentStateAction(agent_state=answer, thought=reason), action_id)

    def _is_asked_by_check(self) -> bool:
        """Whether the action that is shown waits because of earlier events."""
        state = self._state()
        judged = next((p.action.judgement for p in state.queue if p.id == state.awaiting), None)
        return judged is not None and judged.rule in CHECKS

    def _others_waiting(self, action_id: int) -> tuple[Pending, ...]:
        return tuple(pending for pending in self._state().queue if pending.held and pending.id != action_id)

    def _waiting_id(self, action_id: int | None) -> int:
        awaiting = self._state().awaiting
        if awaiting is None or action_id not in (None, awaiting):
            raise UsageError("It was already answered, here or elsewhere. Nothing was changed.")
        return awaiting


def _granted_by(permission: Permission) -> int:
    """The id of the event that granted it."""
    return int(permission.id.removeprefix("c"))
