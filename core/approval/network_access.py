"""Hosts that the sandbox of a conversation refused, and the user's answers about them.

The runtime names the hosts that its own proxy refused in the observation of the action that ran then. Each is offered
until the user answers; nothing waits for the answer. An answer opens the host in the running sandbox: until the agent
rests, or as a permission `connect(HOST)` of the conversation or the project, which later sandboxes get at their start.
Offers are not stored: a conversation that is opened again has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from core.approval.approval import Approval
from core.events import (
    AgentState,
    AgentStateChangedObservation,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    Observation,
    PermissionAction,
    Status,
)
from core.protocols import Runtime
from core.security.patterns import CONNECT, Pattern
from core.security.permissions import Scope
from core.stream import EventStream, EventStreamSubscriber, Frames

OFFERS_STATUS = "STATUS$HOST_OFFERS"
"""Id of an empty notice that says that the offers have changed."""
MAX_OFFERS = 5
"""Hosts that are offered at once; a command can ask for any number."""
TOLD = "I allowed network access from the sandbox to {hosts}. Try again."
"""The message for the agent after the last answer; the chat shows it."""
_TOLD_BEGINNING = TOLD.partition("{")[0]
_AT_REST = frozenset(
    {AgentState.AWAITING_USER_INPUT, AgentState.FINISHED, AgentState.STOPPED, AgentState.ERROR, AgentState.REJECTED}
)


@dataclass(frozen=True, slots=True)
class HostOffer:
    """A refused host, and the action during which that happened."""

    host: str
    action_id: int | None


class NetworkAccess:
    """The offers and the opened hosts of one conversation. Call `begin` once, before the sandbox starts."""

    def __init__(
        self,
        runtime: Runtime,
        approval: Approval,
        stream: EventStream,
        frames: Frames,
        send: Callable[[str], Awaitable[object]],
    ) -> None:
        """`send` sends a message of the user to the agent."""
        self._runtime = runtime
        self._approval = approval
        self._stream = stream
        self._frames = frames
        self._send = send
        self._once: tuple[str, ...] = ()
        """Hosts that are open until the agent rests."""
        self._allowed: tuple[str, ...] = ()
        """Hosts that the agent is not told about yet."""
        self._dismissed: frozenset[str] = frozenset()
        """Hosts that the user wants to hear no more about until the next message."""
        self.opened: tuple[str, ...] = ()
        """Hosts that are open now besides those of the settings."""
        self.offers: tuple[HostOffer, ...] = ()
        """What the user has not answered, in order."""

    async def begin(self) -> None:
        """Open what the permissions allow, and follow the events. Raises StoreError."""
        types: list[type[Event]] = [Observation, PermissionAction, MessageAction]
        self._stream.subscribe(EventStreamSubscriber.RUNTIME, self._on_event, "network-access", types=types)
        await self.apply()

    async def apply(self) -> None:
        """Open in the sandbox what is allowed now, and close what is not any more."""
        allowed = await asyncio.to_thread(self._approval.guard.opened_hosts)
        hosts = tuple(dict.fromkeys((*allowed, *self._once)))
        if hosts != self.opened:
            self.opened = hosts
            await self._runtime.open_hosts(hosts)

    async def allow(self, host: str, scope: Scope) -> None:
        """Open a host: ONCE until the agent rests. After the last answer the agent is told.

        Raises as `Approval.permit`.
        """
        if scope is Scope.ONCE:
            self._once = (*self._once, host)
        else:
            await self._approval.permit(str(Pattern(CONNECT, host)), scope)
        await self.apply()
        self._allowed = (*self._allowed, host)
        await self._answered(host)

    async def dismiss(self, host: str) -> None:
        """Keep a host closed, and do not offer it again before the user's next message. Raises as `allow`."""
        self._dismissed |= {host}
        await self._answered(host)

    async def _answered(self, host: str) -> None:
        self._set_offers(offer for offer in self.offers if offer.host != host)
        if self._allowed and not self.offers:
            hosts, self._allowed = ", ".join(self._allowed), ()
            await self._send(TOLD.format(hosts=hosts))

    async def _on_event(self, envelope: Envelope) -> None:
        event = envelope.event
        if isinstance(event, MessageAction):
            if envelope.source is EventSource.USER and not event.content.startswith(_TOLD_BEGINNING):
                self._dismissed = frozenset()
        elif isinstance(event, PermissionAction):
            await self.apply()
        elif isinstance(event, AgentStateChangedObservation):
            if event.agent_state in _AT_REST:
                self._once = ()
            await self.apply()  # a permission of the project may have been revoked meanwhile
        elif isinstance(event, Observation):
            self._offer(event, envelope.cause)

    def _offer(self, observation: Observation, action_id: int | None) -> None:
        known = {*self.opened, *self._dismissed, *(offer.host for offer in self.offers)}
        for refusal in observation.refusals:
            if refusal.host and refusal.host not in known and len(self.offers) < MAX_OFFERS:
                known.add(refusal.host)
                self._set_offers((*self.offers, HostOffer(refusal.host, action_id)))

    def _set_offers(self, offers: Iterable[HostOffer]) -> None:
        self.offers = tuple(offers)
        self._frames.publish(Status("info", OFFERS_STATUS, ""))  # the screen looks again
