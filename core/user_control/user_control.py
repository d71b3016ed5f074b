"""What the user does in the agent's sandbox while the agent waits or rests: commands, the terminal, the browser.

UserTerminal: the user types into the agent's terminal. Invariants: it is in the log as one action of the user, stored
before it begins, and one observation, however it ends, with the lines that the user typed and the terminal's output, up
to a limit. Keys reach the sandbox unchanged and in order and are stored nowhere; what a program does not echo is in no
event. Meanwhile no action of the agent begins, and the observation of one that ran is stored after the user's, so the
agent reads what happened before it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from core.actions.output import LiveOutput, cut_short
from core.errors import RuntimeUnavailableError, UsageError
from core.events import (
    CmdRunAction,
    Envelope,
    Frame,
    Observation,
    Status,
)
from core.protocols import Runtime
from core.secrets.command_secrets import SecretInjection
from core.user_control.user_actions import NO_LIMIT_S, UserAction, UserActionContext, UserShell
from core.user_control.user_browser import UserBrowser

COMMAND = "# The user took over the terminal."
"""A comment, so that an older shell does nothing."""
CUT_SHORT = "\n[The user had the terminal, and it was ended before they gave it back.]"
MAX_WAITING_BYTES = 1024 * 1024
"""Keys that the sandbox has not read; a paste is smaller."""
GIVEN_BACK = "STATUS$TERMINAL_GIVEN_BACK"
"""Id of the frame after which the agent has the terminal."""
READY = "STATUS$TERMINAL_TAKEN"
"""Id of the frame with which the sandbox says that it accepts keys. Not published."""


class UserTerminal:
    """Whether the user or the agent controls the terminal of one conversation."""

    def __init__(self, runtime: Runtime, context: UserActionContext) -> None:
        self._runtime = runtime
        self._context = context
        self._is_on = False
        self._task: asyncio.Task[None] | None = None
        self._size: tuple[int, int] | None = None
        self._keys = bytearray()
        self._wanted = asyncio.Event()
        """Set when there is something to send: keys, a size, the end."""
        self._is_returning = False
        self.is_ready = False
        """Whether the sandbox accepts keys; before that, they wait."""

    @property
    def is_on(self) -> bool:
        """Whether the user controls the terminal, or is about to."""
        return self._is_on

    async def begin(self, rows: int, columns: int) -> Envelope:
        """Let the user have the terminal, in this size, until `give_back`. The agent waits.

        It is stored when this returns; keys may be typed from then on. Raises StoreError, as `Suspension.awake`, and
        UsageError if the user has it already.
        """
        async with self._context.awake():
            return await self._begin(rows, columns)

    async def _begin(self, rows: int, columns: int) -> Envelope:
        if self.is_on:
            raise UsageError("You already control the terminal. Give it back first.")
        action = CmdRunAction(command=COMMAND, blocking=True, timeout=NO_LIMIT_S, takes_over=True)
        self._keys.clear()
        self._is_returning = self.is_ready = False
        self._size = (rows, columns)
        self._is_on = True
        live = LiveOutput(self._context.frames)

        user_action = UserAction(
            action,
            lambda id: self._carry_out(action, id, live),
            lambda: cut_short(action, live.output, CUT_SHORT),
            on_end=self._release,
        )
        try:
            envelope, self._task = await user_action.begin(self._context)
        except BaseException:
            self._is_on = False
            raise
        return envelope

    def type(self, keys: bytes) -> None:
        """Send keys to the terminal, in order. Raises UsageError if too many wait to be read."""
        if not self.is_on:
            return
        if len(self._keys) + len(keys) > MAX_WAITING_BYTES:
            raise UsageError("The program does not read its input. Wait, or give the terminal back.")
        self._keys += keys
        self._wanted.set()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal to that on the screen of the user."""
        if self.is_on and (rows, columns) != self._size:
            self._size = (rows, columns)
            self._wanted.set()

    def give_back(self) -> None:
        """Let the agent go on; what runs in the terminal stays. Does nothing if the agent has the terminal."""
        self._is_returning = True
        self._wanted.set()

    async def wait_for_return(self) -> None:
        """Return when the agent has the terminal; the observation is stored by then."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def interrupt(self) -> None:
        """End it at once; the action still gets its observation."""
        if self._task is not None:
            self._task.cancel()

    def _release(self) -> None:
        self._is_on = False
        self._context.frames.publish(Status("info", GIVEN_BACK, ""))

    async def _carry_out(self, action: CmdRunAction, action_id: int, live: LiveOutput) -> Observation:
        def publish(frame: Frame) -> None:
            if isinstance(frame, Status) and frame.id == READY:
                self.is_ready = True
                self._wanted.set()
            else:
                live.publish(frame)

        sending: asyncio.Task[None] | None = None
        try:
            await self._prepare(self._context.ready())
            sending = self._context.spawn(self._send())
            return await self._runtime.execute(action, action_id, publish)
        finally:
            self.is_ready = False
            if sending is not None:
                sending.cancel()

    async def _prepare(self, preparation: Awaitable[None]) -> None:
        """Wait for the sandbox. Raises CancelledError if the user gives the terminal back before."""
        preparing = asyncio.ensure_future(preparation)
        try:
            while not preparing.done():
                self._wanted.clear()
                if self._is_returning:
                    raise asyncio.CancelledError
                wanted = asyncio.ensure_future(self._wanted.wait())
                await asyncio.wait([preparing, wanted], return_when=asyncio.FIRST_COMPLETED)
                wanted.cancel()
            preparing.result()
        finally:
            preparing.cancel()

    async def _send(self) -> None:
        """Send sizes, keys and the end, in order."""
        with suppress(RuntimeUnavailableError):  # `execute` reports it
            sent: tuple[int, int] | None = None
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                if not self.is_ready:
                    continue
                if self._size is not None and self._size != sent:
                    sent = self._size
                    await self._runtime.resize_terminal(*sent)
                while self._keys:
                    keys = bytes(self._keys)
                    self._keys.clear()
                    try:
                        await self._runtime.type_keys(keys)
                    except UsageError as error:
                        self._context.frames.publish(Status("error", "STATUS$KEYS_LOST", str(error)))
                if self._is_returning:
                    await self._runtime.give_terminal_back()
                    return  # the terminal has its own size again: a later one of the screen would stay


class UserControl:
    """What the user does in the sandbox of one conversation."""

    def __init__(self, runtime: Runtime, secrets: SecretInjection, context: UserActionContext) -> None:
        self._context = context
        self.commands = UserShell(runtime, secrets, context)
        """Commands of the user, between the agent's."""
        self.terminal = UserTerminal(runtime, context)
        """Whether the user controls the terminal; `begin` lets the user have it."""
        self.browser = UserBrowser(runtime, context)
        """Whether the user controls the browser; `begin` lets the user have it."""

    @property
    def is_on(self) -> bool:
        """Whether the user runs a command or controls the terminal or the browser."""
        return self.commands.is_busy or self.terminal.is_on or self.browser.is_on

    async def run_command(self, command: str) -> Envelope:
        """Run a command in the agent's shell, as the user; the model reads it with the next message.

        It is stored when this returns, and runs on. Raises StoreError, as `Suspension.awake`, and UsageError while the
        shell is in use.
        """
        if self._context.agent_works():
            raise UsageError("The agent is using this shell. Press Esc to stop it, then run the command again.")
        if self.terminal.is_on:
            raise UsageError("You have taken over the terminal. Type the command there, or give it back.")
        async with self._context.awake():
            return await self.commands.run(command)

    async def prepare(self) -> None:
        """Start the sandbox unless it runs. Raises RuntimeUnavailableError, and as `Suspension.awake`."""
        async with self._context.awake():
            await self._context.ready()

    def interrupt(self) -> None:
        """End all of it, because the conversation closes."""
        self.commands.interrupt()
        self.terminal.interrupt()
        self.browser.interrupt()
