"""BashSession: runs commands one at a time in a shell that keeps its folder, variables and jobs.

What the model reads, with the hints on silence, time-outs and input, is word for word that of OpenHands V0
(`openhands/runtime/utils/bash.py`); additions are separate lines behind it.

Invariants: one command at a time; every call of `execute` returns one observation or raises; when the caller stops
waiting, the command is interrupted; after any of that the next command finds a working shell, a new one if necessary.
"""

from __future__ import annotations

import asyncio
import math
import os
import time

from core.events import CmdOutputMetadata, CmdOutputObservation, CmdRunAction, Status, TerminalOutput
from runtime.cancellation import run_to_completion
from runtime.server import input_detection, prompt
from runtime.server.action_executor import Emit, Table
from runtime.server.outputs import OutputLog, Outputs, TerminalViewers
from runtime.server.shell import Environment, Shell, ShellError
from runtime.server.terminal import control_key
from runtime.server.user_terminal import UserTerminal

NO_CHANGE_TIMEOUT_S = 10.0
"""Silence after which the model is asked what to do, as in V0's server."""
DEFAULT_TIMEOUT_S = 120.0
"""Time limit of an action that has none; V0's `sandbox.timeout`."""
LOOK_AFTER_S = 0.15
"""Silence after which to check whether the command waits for input; doubled each time."""
LOOK_AGAIN_S = 0.1
"""Pause before a second check: on a busy machine, what waits may be the shell whose prompt has not arrived yet."""
SHOWN_COMMAND_CHARS = 4_000
"""A command is shown above its output; a longer one is cut."""
MAX_UNSENT_BYTES = 1024 * 1024
"""Limit for input that the program has not read."""
WAITING_FOR_INPUT = "STATUS$WAITING_FOR_INPUT"


class NothingRunsError(Exception):
    """No program is running that could take input; the text says what to do."""


class BashSession:
    """A bash on a pseudo-terminal. It belongs to the event loop in which it was started.

    `environment` and `umask` are those of commands; times are in seconds. `outputs` keeps what commands print; a
    session without one makes and removes its own.
    """

    def __init__(
        self,
        working_dir: str,
        *,
        environment: Environment | None = None,
        umask: int = 0o022,
        no_change_timeout_s: float = NO_CHANGE_TIMEOUT_S,
        default_timeout_s: float = DEFAULT_TIMEOUT_S,
        outputs: Outputs | None = None,
    ) -> None:
        self._working_dir = working_dir
        self.environment = environment or Environment(os.environ)
        self._umask = umask
        self._no_change_timeout_s = no_change_timeout_s
        self._default_timeout_s = default_timeout_s
        self._owns_outputs = outputs is None
        self.outputs = outputs or Outputs()
        self.viewers = TerminalViewers()
        self._log = OutputLog(self.outputs, self.viewers)
        self._shell = Shell(working_dir, environment=self.environment, umask=umask, log=self._log)
        self._lock = asyncio.Lock()
        self._user = UserTerminal(self._shell)
        self._is_shown_in_part = False
        self._is_announced = False
        self._announced_at_bytes = -1

    @property
    def cwd(self) -> str:
        return self._shell.cwd

    @property
    def pid(self) -> int:
        return self._shell.pid

    @property
    def table(self) -> Table:
        return {CmdRunAction: self.carry_out}

    async def start(self) -> None:
        """Start the shell and wait for its first prompt. Raises ShellError."""
        if self._owns_outputs:
            await asyncio.gather(self._shell.start(), self.outputs.remove_abandoned())
        else:
            await self._shell.start()

    async def execute(self, action: CmdRunAction, action_id: int, emit: Emit) -> CmdOutputObservation:
        """Run a command, or give input to the running one; live output goes to `emit`.

        Cancelling, and an `emit` that raises, interrupt the command with C-c and then stronger signals, for 2 s in all.
        Raises ShellError if no shell can be started.
        """
        async with self._lock:
            shell, is_done = self._shell, False
            shell.has_listener = True
            try:
                observation = await self._execute(action, action_id, emit)
                is_done = True
                return observation
            finally:
                shell.has_listener = False
                if not is_done:  # a failed write is followed by the request's cancellation
                    await run_to_completion(shell.interrupt())
                elif shell.terminal is not None:
                    shell.terminal.resume()

    async def carry_out(self, action: CmdRunAction, action_id: int, emit: Emit) -> CmdOutputObservation:
        """Carry out an action: `execute`, `take_over`, or for a static action, `execute` in a separate shell in its
        `cwd`.
        """
        if action.takes_over:
            return await self.take_over(action, action_id, emit)
        if not action.is_static:
            return await self.execute(action, action_id, emit)
        session = BashSession(
            action.cwd or self._working_dir,
            environment=self.environment,
            umask=self._umask,
            no_change_timeout_s=self._no_change_timeout_s,
            default_timeout_s=self._default_timeout_s,
            outputs=self.outputs,
        )
        try:
            await session.start()
            return await session.execute(action, action_id, emit)
        finally:
            await session.aclose()

    async def take_over(self, action: CmdRunAction, action_id: int, emit: Emit) -> CmdOutputObservation:
        """Give the terminal to the user until `give_back` or cancellation; see `user_terminal`.

        A caller that waits for a command returns at once; new commands wait. Raises ShellError.
        """
        if self._user.is_on:
            return CmdOutputObservation(command=action.command, content="The user has already taken over the terminal.")
        self._user.begin()
        async with self._lock:
            self._shell.has_listener = True
            try:
                await self._clear_waiting_status(emit)
                return await self._user.run(action.command, action_id, emit)
            finally:
                self._user.is_on = False
                self._shell.has_listener = False
                if self._shell.terminal is not None:
                    self._shell.terminal.resume()

    def give_back(self) -> None:
        """End the user's turn, if there is one."""
        self._user.end()

    def type(self, keys: bytes) -> None:
        """Send the user's keys to the running command. They are not shown, because they may be a password.

        Raises NothingRunsError; ValueError if the command has left too much input unread.
        """
        shell = self._shell
        is_free = shell.terminal is None or self._log.action_id is None or shell.is_over
        if is_free and not self._user.is_on:
            raise NothingRunsError("No command is running that could take input. Run one first.")
        waiting_bytes = shell.terminal.unsent_bytes if shell.terminal is not None else 0
        if waiting_bytes + self._user.waiting_bytes + len(keys) > MAX_UNSENT_BYTES:
            raise ValueError("The command has not read the previous input. Wait for it, or interrupt it.")
        self._announced_at_bytes = -1
        if self._user.is_on:
            self._user.type(keys)
        elif shell.terminal is not None:
            shell.terminal.send(keys)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal; the program is notified."""
        self._shell.resize(rows, columns)

    async def aclose(self) -> None:
        """End the shell and its whole session. May be called twice."""
        await self._shell.aclose()
        self.viewers.close()
        if self._owns_outputs:
            await self.outputs.aclose()

    async def _execute(self, action: CmdRunAction, action_id: int, emit: Emit) -> CmdOutputObservation:
        shell = self._shell
        presses_enter = action.is_input and "\n" in action.command
        is_blank = not action.command.strip() and not presses_enter
        await shell.flush(emit)
        if self._log.action_id is None:
            if is_blank:
                return CmdOutputObservation(command="", content=prompt.NOTHING_TO_RETRIEVE)
            if action.is_input:
                return CmdOutputObservation(command="", content=prompt.NOTHING_TO_INTERACT)
            return await self._run(action, action_id, emit, prefix="")
        if is_blank:
            return await self._wait(action, action_id, emit)
        if shell.is_over and action.is_input:
            return await self._complete(action, emit, prefix=f"{prompt.NOTHING_TO_INTERACT}\n{prompt.CONTINUED}")
        if shell.is_over:
            before = await self._complete(action, emit, prefix=prompt.CONTINUED)
            prefix = before.metadata.prefix + before.content + before.metadata.suffix + "\n"
            return await self._run(action, action_id, emit, prefix=prefix)
        if not action.is_input:
            return self._still_running(action, prompt.not_executed(action.command))
        await self._send_input(action, action_id, emit)
        return await self._wait(action, action_id, emit)

    async def _run(self, action: CmdRunAction, action_id: int, emit: Emit, prefix: str) -> CmdOutputObservation:
        if self._shell.has_ended:
            prefix += f"[The shell had ended. {await self._shell.restart()}]\n"
        await self._clear_waiting_status(emit)
        await self._echo(f"$ {action.command.strip()}", action_id, emit)
        self._is_shown_in_part = False
        await self._shell.begin(action.command, action_id)
        return await self._wait(action, action_id, emit, prefix=prefix)

    async def _send_input(self, action: CmdRunAction, action_id: int, emit: Emit) -> None:
        await self._clear_waiting_status(emit)
        text = action.command.removesuffix("\n")
        key = control_key(text) or self._shell.named_key(text)
        is_control = control_key(text) is not None
        await self._echo("^" + text.strip()[2:].upper() if is_control else text, action_id, emit)
        self._shell.send_input(text if key is None else key)

    async def _wait(
        self, action: CmdRunAction, action_id: int, emit: Emit, *, prefix: str = ""
    ) -> CmdOutputObservation:
        """Wait until the command ends, waits for input, is silent for too long, or reaches its time limit."""
        shell, log = self._shell, self._log
        log.action_id = action_id
        timeout_s = self._default_timeout_s if action.timeout is None else action.timeout
        started_at = printed_at = log.last_at = time.monotonic()
        look_after_s = LOOK_AFTER_S
        while True:
            await shell.flush(emit)
            if shell.is_over:
                return await self._complete(action, emit, prefix=prefix)
            if self._user.is_on:
                return self._still_running(action, prompt.TAKEN_OVER, prefix)
            if self._announced_at_bytes != log.total_bytes:
                await self._clear_waiting_status(emit)
            if log.last_at > printed_at:
                printed_at, look_after_s = log.last_at, LOOK_AFTER_S
            silent_at = math.inf if action.blocking else printed_at + self._no_change_timeout_s
            ends_at = started_at + timeout_s
            now = time.monotonic()
            if now >= silent_at:
                return self._still_running(action, prompt.no_new_output(self._no_change_timeout_s), prefix)
            if now >= ends_at:
                return self._still_running(action, prompt.timed_out(timeout_s), prefix)
            if now >= printed_at + look_after_s:
                look_after_s *= 2
                if await self._announce_waiting(emit) and not action.blocking:
                    return self._still_running(action, prompt.WAITS, prefix)
            await shell.change(min(silent_at, ends_at, printed_at + look_after_s) - now)

    async def _announce_waiting(self, emit: Emit) -> bool:
        """Check whether the command waits for input; return True if it does and this was not announced before."""
        shell, total_bytes = self._shell, self._log.total_bytes
        if self._announced_at_bytes == total_bytes or not shell.has_begun:
            return False
        if not input_detection.waits_for_terminal(shell.terminal):
            return False
        await shell.change(LOOK_AGAIN_S)
        is_quiet = self._log.total_bytes == total_bytes and not shell.is_over
        if not is_quiet or not input_detection.waits_for_terminal(shell.terminal):
            return False
        self._announced_at_bytes = total_bytes
        self._is_announced = True
        await emit(Status("info", WAITING_FOR_INPUT, "The command is waiting for input."))
        return True

    async def _clear_waiting_status(self, emit: Emit) -> None:
        self._announced_at_bytes = -1
        if self._is_announced:
            self._is_announced = False
            await emit(Status("info", WAITING_FOR_INPUT, ""))

    async def _echo(self, text: str, action_id: int, emit: Emit) -> None:
        frame = TerminalOutput(action_id, _echo_bytes(text), is_echo=True)
        self.viewers.show(frame)
        await emit(frame)

    def _still_running(self, action: CmdRunAction, suffix: str, prefix: str = "") -> CmdOutputObservation:
        content = self._log.unread.take(whole=action.hidden)
        prefix += prompt.CONTINUED * self._is_shown_in_part
        self._is_shown_in_part = self._is_shown_in_part or bool(content)
        metadata = CmdOutputMetadata(prefix=prefix, suffix=suffix + self._storage_note())
        return CmdOutputObservation(command=action.command, content=content, hidden=action.hidden, metadata=metadata)

    async def _complete(self, action: CmdRunAction, emit: Emit, *, prefix: str) -> CmdOutputObservation:
        content = self._log.unread.take(whole=action.hidden)
        storage_note = self._storage_note()
        ended, shell_ended = self._shell.take_result()
        suffix = prompt.completed(ended.exit_code, action.command) + storage_note
        if shell_ended:
            try:
                restarted = await self._shell.restart()
            except ShellError as error:  # the next command tries again
                restarted = f"No new shell could be started yet: {error}."
            suffix += f"\n[The shell ended with it. {restarted}]"
        await self._clear_waiting_status(emit)
        metadata = ended.model_copy(update={"prefix": prefix, "suffix": suffix})
        return CmdOutputObservation(command=action.command, content=content, hidden=action.hidden, metadata=metadata)

    def _storage_note(self) -> str:
        """Return where the whole output is stored if what was just taken of it was cut."""
        output = self._log.output
        return output.storage_note() if self._log.unread.was_cut and output is not None else ""


def _echo_bytes(text: str) -> bytes:
    """Format typed text for the user: dim, without escape sequences."""
    plain = "".join(char if char.isprintable() or char == "\n" else " " for char in text[:SHOWN_COMMAND_CHARS])
    return b"\x1b[2m" + plain.replace("\n", "\r\n").encode("utf-8", "replace") + b"\x1b[0m\r\n"
