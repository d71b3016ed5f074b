"""Shell: one bash on a terminal. It takes a command, hears what is printed, and knows the command's end.

Commands are written to a file and sourced, so that any text is taken as it is: several lines,
here-documents, 100 KB, unclosed quotes. The prompt says where a command ended and how (see `prompt`); what
stands before it was printed (see `printed`). How long a command is waited for, and what is said about it, is
in `bash`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress

from core.events import CmdOutputMetadata
from core.secrets.command_secrets import lent
from runtime.server import hints, processes, prompt
from runtime.server.action_executor import Emit
from runtime.server.output_log import Printed
from runtime.server.secret_handover import Handover
from runtime.server.terminal import COLUMNS, ROWS, Terminal, control_key, named_key

START_TIMEOUT_S = 10.0
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # mkdtemp makes a private folder in it
"""Where the system has it, a command's file costs a third of the time that it costs on a disk."""
INTERRUPT_STEPS = ((signal.SIGINT, 0.25), (signal.SIGINT, 0.75), (signal.SIGTERM, 0.5), (signal.SIGKILL, 0.5))
"""What the foreground gets, and how long its end is waited for then; after that, the shell itself is killed.

The second SIGINT is for a command that the shell had not yet begun when the first one came.
"""


class ShellError(Exception):
    """The shell could not be started; the text says why."""


class Shell:
    """A bash and its terminal, and a fresh one for one that ended. Belongs to one loop."""

    def __init__(self, working_dir: str, *, env: Mapping[str, str], umask: int, printed: Printed) -> None:
        self._working_dir = working_dir
        self._env = {**env, "TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat"}
        self._umask = umask
        self.printed = printed
        self.cwd = working_dir
        """The shell's folder, as its last prompt said."""
        self.is_listened_to = False
        """Whether somebody takes the live bytes."""
        self.terminal: Terminal | None = None
        """None before the start and after the end of everything."""
        self._changed = asyncio.Event()
        self._size = (ROWS, COLUMNS)
        self._folder = ""
        self._number = 0
        self._begun_file = ""
        self._handover: Handover | None = None
        """The secrets of the command that runs."""
        self._prompt: CmdOutputMetadata | None = None
        self._exit_status: int | None = None
        self.other_prompts = 0
        """Prompts that ended no command of ours."""
        self._is_closed = False

    @property
    def pid(self) -> int:
        """The shell's process; -1 where there is none."""
        return self.terminal.pid if self.terminal else -1

    @property
    def is_over(self) -> bool:
        """Whether the command that runs has ended, with a prompt or together with its shell."""
        return self._prompt is not None or self._exit_status is not None

    @property
    def has_begun(self) -> bool:
        """Whether the shell has read the command; before that, it is the shell that waits for input. Blocks."""
        if not self._begun_file:
            return True  # a key
        try:
            with open(self._begun_file, "rb") as file:
                return file.read() == b"%d\n" % self._number
        except OSError:
            return False  # it is the first one, or has removed it, and is then not looked at

    @property
    def has_ended(self) -> bool:
        """Whether the shell itself is gone."""
        return self._exit_status is not None or self.terminal is None

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
            init = self.write_file("init", prompt.init_script(nonce))
            argv = [bash, "--noprofile", "--rcfile", init, "--noediting", "-i"]
            env = {**self._env, "PWD": folder}
            terminal.start(argv, cwd=folder, env=env, umask=self._umask, size=self._size)
        except OSError as error:
            raise ShellError(f"the shell cannot be started in {folder}: {error.strerror}") from error
        self.terminal = terminal
        if not await self.ends_within(START_TIMEOUT_S) or self._prompt is None:
            await terminal.aclose()
            raise ShellError(f"the shell gave no prompt: {self.printed.unread.take()}")
        self._prompt = None

    async def start_afresh(self) -> str:
        """A new shell for one that ended; the answer is a sentence that says so. Raises ShellError."""
        if self.terminal is not None:
            await self.terminal.aclose()
            self.terminal = None
        await self.start()
        return hints.fresh_shell(self.cwd)

    async def begin(self, command: str, action_id: int) -> None:
        """Give a command, or a special key, to the shell, which is idle; a command gets what is lent to the task."""
        assert self.terminal is not None
        await self.printed.begin()
        self.terminal.calm()
        key = control_key(command)
        self._begun_file = ""
        if key is None:
            self._number += 1
            path = self.write_file("command", command.replace("\0", "") + "\n")
            key = self._command_line(path)
            self._begun_file = prompt.begun_file(path)
        self._prompt = None
        self.printed.action_id = action_id
        self.terminal.send_unseen(key)

    def _command_line(self, path: str) -> bytes:
        if not (values := lent()):
            return prompt.command_line(path, self._number)
        self._take_back()
        self._handover = Handover(values)
        return prompt.command_line(path, self._number, self._handover.path, self._handover.names)

    def _take_back(self) -> None:
        """The secrets that the shell has not read are gone; it forgets the others with its prompt."""
        if self._handover is not None:
            self._handover.close()
            self._handover = None

    def named_key(self, text: str) -> bytes | None:
        """The key of this name, for a program that takes keys one by one."""
        assert self.terminal is not None
        return None if self.terminal.takes_lines else named_key(text, application=self.printed.wants_application_keys)

    def give(self, typed: str | bytes) -> None:
        """Give a line, or keys as they are, to the command that runs."""
        assert self.terminal is not None
        if isinstance(typed, str):
            self.terminal.send_line(typed.encode("utf-8", "replace"))
        else:
            self.terminal.send_unseen(typed)

    def resize(self, rows: int, columns: int) -> None:
        """The size of the screen, of this shell's and of fresh ones."""
        self._size = (rows, columns)
        if self.terminal is not None:
            self.terminal.resize(rows, columns)

    def end_unbegun(self) -> None:
        """What was typed to begin a command is lost, and the shell at its prompt: the command is over."""
        self._prompt = CmdOutputMetadata(exit_code=130, working_dir=self.cwd)

    def take_end(self) -> tuple[CmdOutputMetadata, bool]:
        """How the command ended, and whether the shell ended with it; from then on none runs."""
        self.printed.end()
        self._take_back()
        if self._prompt is not None:
            return self._prompt, False
        assert self._exit_status is not None
        # A shell that a signal ended is told as shells tell it: 128 and the signal's number.
        code = self._exit_status if self._exit_status >= 0 else 128 - self._exit_status
        return CmdOutputMetadata(exit_code=code, working_dir=self.cwd), True

    async def interrupt(self) -> None:
        """End what runs, so that the next command finds a shell that is ready."""
        self.printed.drop()
        if self.printed.action_id is not None and self.terminal is not None and not self.is_over:
            self.terminal.resume()
            await self._end_command()
        self._take_back()
        self.printed.end()
        self.printed.drop()
        if self._exit_status is not None:
            with suppress(ShellError):  # the next command tries again, and tells
                await self.start_afresh()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the command's end; the answer is whether it came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.is_over:
                    self._changed.clear()
                    await self._changed.wait()
        return self.is_over

    def wake(self) -> None:
        """Have whoever waits for a change look again."""
        self._changed.set()

    async def change(self) -> None:
        """Wait until something is printed or ends, or `wake` is called; what was since the last call counts."""
        await self._changed.wait()
        self._changed.clear()

    async def change_within(self, seconds: float) -> None:
        """Wait until something is printed or ends, or for so long; what was since the last call counts.

        What is printed while a slow reader takes what was printed before would else be waited for in vain: the
        terminal is paused when that is much.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    async def flush(self, emit: Emit) -> None:
        """Hand over the live bytes that have gathered, and let the terminal go on."""
        if data := self.printed.take_live():
            if self.terminal is not None:
                self.terminal.resume()
            await emit(data)
            self.printed.last_at = time.monotonic()  # the time that a slow reader took is no silence

    async def aclose(self) -> None:
        """End the shell and everything in its session. May be called twice."""
        self._is_closed = True
        self._take_back()
        if self.terminal is not None:
            await self.terminal.aclose()
            self.terminal = None
        self.printed.end()
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _folder_to_start_in(self) -> str:
        return self.cwd if os.path.isdir(self.cwd) else self._working_dir

    async def _end_command(self) -> None:
        """Signals to what has the terminal: the command, or the shell where it runs a loop of its own.

        bash ends a list of commands when one of them dies of SIGINT, and goes on to the next one where it dies of
        another signal; so the shell gets a SIGINT of its own before the stronger ones. A shell that is killed is
        waited for: a prompt on its way would be that of a dead shell.
        """
        assert self.terminal is not None
        for number, wait_s in INTERRUPT_STEPS:
            group = self.terminal.foreground_group
            if number is signal.SIGKILL and group == self.pid:
                break
            with suppress(ProcessLookupError, PermissionError):
                if number is not signal.SIGINT:
                    os.kill(self.pid, signal.SIGINT)
                os.killpg(group, number)
            if await self.ends_within(wait_s):
                return
        processes.kill_all([self.pid])
        with suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                while self._exit_status is None:
                    self._changed.clear()
                    await self._changed.wait()

    def _on_output(self, data: bytes) -> None:
        self.printed.last_at = time.monotonic()
        for piece in self._filter.feed(data):
            if isinstance(piece, bytes):
                self.printed.feed(piece)
            elif piece.number == self._number:
                self._prompt = piece.metadata
                self.cwd = piece.metadata.working_dir or self.cwd
            else:
                self.other_prompts += 1
        if self.printed.is_waiting_for_its_reader:
            if self.is_listened_to and self.terminal is not None:
                self.terminal.pause()
            else:
                self.printed.forget_old()
        self._changed.set()

    def _on_exit(self, status: int) -> None:
        self._exit_status = status
        self._changed.set()

    def write_file(self, name: str, text: str) -> str:
        """A file for the shell to read, in a folder of our own, made anew where a command has removed it."""
        if not os.path.isdir(self._folder):
            memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
            self._folder = tempfile.mkdtemp(prefix="handloom-shell-", dir=memory)
        path = os.path.join(self._folder, name)
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        return path
