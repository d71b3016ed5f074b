"""BashSession: one shell that keeps folder, variables and jobs from command to command.

Commands are written to a file and sourced, so that any text is taken as it is: several lines,
here-documents, 100 KB, unclosed quotes. The prompt says where a command ended and how (see `prompt`). What
the model reads, with its hints on silence and time-outs, is word for word that of OpenHands V0
(`openhands/runtime/utils/bash.py`).

Invariants: one command at a time; every execute returns one observation or raises what ended it; whoever
stops waiting gets his command interrupted; after any of that the next command finds a shell, if need be a
fresh one.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress

from core.events import CmdOutputMetadata, CmdOutputObservation, CmdRunAction, TerminalOutput
from core.events.output import OutputBuffer
from runtime.protocol import NO_ACTION_ID
from runtime.server import hints, processes, prompt
from runtime.server.executor import Emit, Table
from runtime.server.terminal import Terminal

NO_CHANGE_TIMEOUT_S = 10.0
"""Silence after which the model is asked what to do; V0's server uses 10."""
DEFAULT_TIMEOUT_S = 120.0
"""Of an action without its own; V0's `sandbox.timeout`."""
START_TIMEOUT_S = 10.0
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # mkdtemp makes a private folder in it
"""Where the system has it, a command's file costs a third of the time that it costs on a disk."""
LIVE_BYTES = 256 * 1024
"""Live bytes that wait for a slow reader before the command is made to wait."""
SHOWN_COMMAND_CHARS = 4_000
"""A command is shown above its output; of a longer one, its beginning."""

INTERRUPT_STEPS = ((0.25, signal.SIGINT), (0.75, signal.SIGTERM), (0.5, signal.SIGKILL), (0.5, None))
"""After SIGINT: how long to wait, and what the foreground gets next; None is the end of the shell itself.

The second SIGINT is for a command that the shell had not yet begun when the first one came.
"""


class ShellError(Exception):
    """The shell could not be started; the text says why."""


class BashSession:
    """A bash on a pseudo-terminal. Belongs to the loop in which it was started.

    `env` is the environment of commands, `umask` theirs too. Times are in seconds.
    """

    def __init__(
        self,
        working_dir: str,
        *,
        env: Mapping[str, str] | None = None,
        umask: int = 0o022,
        no_change_timeout_s: float = NO_CHANGE_TIMEOUT_S,
        default_timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._working_dir = working_dir
        self._cwd = working_dir
        self._umask = umask
        self._no_change_timeout_s = no_change_timeout_s
        self._default_timeout_s = default_timeout_s
        self._env = {
            **(os.environ if env is None else env),
            "TERM": "xterm-256color",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
        }
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._output = OutputBuffer()
        self._live = bytearray()
        self._folder = ""
        self._terminal: Terminal | None = None
        self._number = 0
        self._running_id: int | None = None
        self._is_shown_in_part = False
        self._is_listened_to = False
        self._is_closed = False
        self._prompt: CmdOutputMetadata | None = None
        self._exit_status: int | None = None
        self._last_output_at = 0.0

    @property
    def cwd(self) -> str:
        """The shell's folder, as its last prompt said."""
        return self._cwd

    @property
    def pid(self) -> int:
        """The shell's process; -1 where there is none."""
        return self._terminal.pid if self._terminal else -1

    @property
    def table(self) -> Table:
        return {CmdRunAction: self.carry_out}

    async def start(self) -> None:
        """Start the shell and wait for its first prompt. Raises ShellError."""
        if self._is_closed:
            raise ShellError("the session is closed")
        bash = shutil.which("bash", path=self._env.get("PATH"))
        if bash is None:
            raise ShellError("bash was not found; install it, or put it on PATH")
        nonce = secrets.token_hex(16)
        self._filter = prompt.PromptFilter(nonce)
        self._number = 0
        self._prompt = self._exit_status = None
        folder = self._folder_to_start_in()
        terminal = Terminal(self._on_output, self._on_exit)
        try:
            init = self._write_file("init", prompt.init_script(nonce))
            argv = [bash, "--noprofile", "--rcfile", init, "--noediting", "-i"]
            terminal.start(argv, cwd=folder, env={**self._env, "PWD": folder}, umask=self._umask)
        except OSError as error:
            raise ShellError(f"the shell cannot be started in {folder}: {error.strerror}") from error
        self._terminal = terminal
        if not await self._ends_within(START_TIMEOUT_S) or self._prompt is None:
            await terminal.aclose()
            raise ShellError(f"the shell gave no prompt: {self._output.take()}")
        self._prompt = None

    async def execute(self, action: CmdRunAction, action_id: int, emit: Emit) -> CmdOutputObservation:
        """Run a command, or give input to the one that runs; live bytes go to `emit`.

        Cancelling, and an `emit` that raises, interrupt the command: C-c, then harder, 2 s in all. Raises
        ShellError where no shell can be had.
        """
        async with self._turn:
            is_done = False
            self._is_listened_to = True
            try:
                observation = await self._execute(action, action_id, emit)
                is_done = True
                return observation
            finally:
                self._is_listened_to = False
                if not is_done:
                    await self._interrupt()
                elif self._terminal is not None:
                    self._terminal.resume()

    async def carry_out(self, action: CmdRunAction, action_id: int, emit: Emit) -> CmdOutputObservation:
        """`execute`, here or, for a static action, in a shell of its own that starts in its `cwd`."""
        if not action.is_static:
            return await self.execute(action, action_id, emit)
        apart = BashSession(
            action.cwd or self._working_dir,
            env=self._env,
            umask=self._umask,
            no_change_timeout_s=self._no_change_timeout_s,
            default_timeout_s=self._default_timeout_s,
        )
        try:
            await apart.start()
            return await apart.execute(action, action_id, emit)
        finally:
            await apart.aclose()

    async def aclose(self) -> None:
        """End the shell and everything in its session. May be called twice."""
        self._is_closed = True
        if self._terminal is not None:
            await self._terminal.aclose()
            self._terminal = None
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _execute(self, action: CmdRunAction, action_id: int, emit: Emit) -> CmdOutputObservation:
        presses_enter = action.is_input and "\n" in action.command
        is_blank = not action.command.strip() and not presses_enter
        await self._flush(emit)
        if self._running_id is None:
            if is_blank:
                return CmdOutputObservation(command="", content=hints.NOTHING_TO_RETRIEVE)
            if action.is_input:
                return CmdOutputObservation(command="", content=hints.NOTHING_TO_INTERACT)
            return await self._run(action, action_id, emit, prefix="")
        if is_blank:
            return await self._wait(action, action_id, emit)
        if self._is_over and action.is_input:
            return await self._complete(action, prefix=f"{hints.NOTHING_TO_INTERACT}\n{hints.CONTINUED}")
        if self._is_over:
            before = await self._complete(action, prefix=hints.CONTINUED)
            told = before.metadata.prefix + before.content + before.metadata.suffix + "\n"
            return await self._run(action, action_id, emit, prefix=told)
        if not action.is_input:
            return self._still_running(action, hints.not_executed(action.command))
        await self._send_input(action, action_id, emit)
        return await self._wait(action, action_id, emit)

    async def _run(self, action: CmdRunAction, action_id: int, emit: Emit, prefix: str) -> CmdOutputObservation:
        """Start a command in an idle shell and wait for it."""
        if self._exit_status is not None or self._terminal is None:
            prefix += f"[The shell had ended. {await self._start_afresh()}]\n"
        assert self._terminal is not None
        await emit(TerminalOutput(action_id, _shown(f"$ {action.command.strip()}"), is_echo=True))
        key = hints.special_key(action.command)
        self._terminal.calm()
        if key is None:
            self._number += 1
            command = action.command.replace("\0", "") + "\n"
            key = prompt.command_line(self._write_file("command", command), self._number)
        self._prompt = None
        self._running_id = action_id
        self._is_shown_in_part = False
        self._terminal.send(key)
        return await self._wait(action, action_id, emit, prefix=prefix)

    async def _send_input(self, action: CmdRunAction, action_id: int, emit: Emit) -> None:
        assert self._terminal is not None
        key = hints.special_key(action.command)
        if key is None:
            text = action.command.removesuffix("\n")
            await emit(TerminalOutput(action_id, _shown(text), is_echo=True))
            self._terminal.send_line(text.encode("utf-8", "replace"))
        else:
            await emit(TerminalOutput(action_id, _shown("^" + action.command.strip()[2:].upper()), is_echo=True))
            self._terminal.send(key)

    async def _wait(
        self, action: CmdRunAction, action_id: int, emit: Emit, *, prefix: str = ""
    ) -> CmdOutputObservation:
        """Wait until the command ends, is silent for too long, or has had its time."""
        self._running_id = action_id
        timeout_s = self._default_timeout_s if action.timeout is None else action.timeout
        started_at = self._last_output_at = time.monotonic()
        while True:
            await self._flush(emit)
            if self._is_over:
                return await self._complete(action, prefix=prefix)
            silent_at = math.inf if action.blocking else self._last_output_at + self._no_change_timeout_s
            ends_at = started_at + timeout_s
            now = time.monotonic()
            if now >= silent_at:
                return self._still_running(action, hints.no_new_output(self._no_change_timeout_s), prefix)
            if now >= ends_at:
                return self._still_running(action, hints.timed_out(timeout_s), prefix)
            await self._change_within(min(silent_at, ends_at) - now)

    def _still_running(self, action: CmdRunAction, suffix: str, prefix: str = "") -> CmdOutputObservation:
        content = self._output.take(whole=action.hidden)
        metadata = CmdOutputMetadata(prefix=prefix + hints.CONTINUED * self._is_shown_in_part, suffix=suffix)
        self._is_shown_in_part = self._is_shown_in_part or bool(content)
        return CmdOutputObservation(command=action.command, content=content, hidden=action.hidden, metadata=metadata)

    async def _complete(self, action: CmdRunAction, *, prefix: str) -> CmdOutputObservation:
        content = self._output.take(whole=action.hidden)
        self._running_id = None
        ended, told = self._prompt, ""
        if ended is None:
            assert self._exit_status is not None
            # A shell that a signal ended is told as shells tell it: 128 and the signal's number.
            code = self._exit_status if self._exit_status >= 0 else 128 - self._exit_status
            ended = CmdOutputMetadata(exit_code=code, working_dir=self._cwd)
            told = f"\n[The shell ended with it. {await self._start_afresh()}]"
        suffix = hints.completed(ended.exit_code, action.command) + told
        metadata = ended.model_copy(update={"prefix": prefix, "suffix": suffix})
        return CmdOutputObservation(command=action.command, content=content, hidden=action.hidden, metadata=metadata)

    async def _interrupt(self) -> None:
        """End what runs, so that the next command finds a shell that is ready."""
        self._live.clear()
        if self._running_id is not None and self._terminal is not None and not self._is_over:
            self._terminal.resume()
            self._signal(signal.SIGINT)
            for wait_s, harder in INTERRUPT_STEPS:
                if await self._ends_within(wait_s):
                    break
                self._signal(harder or signal.SIGKILL)
                if harder is None:
                    processes.kill_all([self._terminal.pid])
                    await self._ends_within(START_TIMEOUT_S)
        self._running_id = None
        self._output.take()
        if self._exit_status is not None:
            with suppress(ShellError):  # the next command tries again, and tells
                await self._start_afresh()

    def _signal(self, number: signal.Signals) -> None:
        """To what has the terminal: the command, or the shell where it runs a loop of its own."""
        assert self._terminal is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._terminal.foreground_group, number)

    async def _start_afresh(self) -> str:
        """A new shell for one that ended; the answer is a sentence that says so. Raises ShellError."""
        if self._terminal is not None:
            await self._terminal.aclose()
        await self.start()
        return hints.fresh_shell(self._cwd)

    @property
    def _is_over(self) -> bool:
        """Whether the command that runs has ended, with a prompt or together with its shell."""
        return self._prompt is not None or self._exit_status is not None

    async def _ends_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_over:
                    self._changed.clear()
                    await self._changed.wait()
        return self._is_over

    async def _change_within(self, seconds: float) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _flush(self, emit: Emit) -> None:
        """Hand over the live bytes that have gathered, and let the terminal go on."""
        if self._live:
            data = bytes(self._live)
            self._live.clear()
            if self._terminal is not None:
                self._terminal.resume()
            await emit(TerminalOutput(NO_ACTION_ID if self._running_id is None else self._running_id, data))
            self._last_output_at = time.monotonic()  # the time that a slow reader took is no silence

    def _on_output(self, data: bytes) -> None:
        self._last_output_at = time.monotonic()
        for piece in self._filter.feed(data):
            if isinstance(piece, bytes):
                self._output.feed(piece)
                self._live += piece
            elif piece.number == self._number:
                self._prompt = piece.metadata
                self._cwd = piece.metadata.working_dir or self._cwd
        if len(self._live) > LIVE_BYTES:
            if self._is_listened_to and self._terminal is not None:
                self._terminal.pause()
            else:
                del self._live[:-LIVE_BYTES]
        self._changed.set()

    def _on_exit(self, status: int) -> None:
        self._exit_status = status
        self._changed.set()

    def _folder_to_start_in(self) -> str:
        return self._cwd if os.path.isdir(self._cwd) else self._working_dir

    def _write_file(self, name: str, text: str) -> str:
        """A file for the shell to read, in a folder of our own, made anew where a command has removed it."""
        if not os.path.isdir(self._folder):
            memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
            self._folder = tempfile.mkdtemp(prefix="handloom-shell-", dir=memory)
        path = os.path.join(self._folder, name)
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        return path


def _shown(text: str) -> bytes:
    """What the user sees of what was typed: dim, one look for commands and input, no escapes of its own."""
    plain = "".join(char if char.isprintable() or char == "\n" else " " for char in text[:SHOWN_COMMAND_CHARS])
    return b"\x1b[2m" + plain.replace("\n", "\r\n").encode("utf-8", "replace") + b"\x1b[0m\r\n"
