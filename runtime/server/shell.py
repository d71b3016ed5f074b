"""Shell: one bash on a terminal. It takes a command, receives its output, and knows when it has ended.

Commands are written to a file and sourced, so that any text works: several lines, here-documents, 100 KB, unclosed
quotes. The prompt says how a command ended (see `prompt`); everything before it is output (see `outputs`). How long
to wait for a command, and what the model reads, is decided in `bash_session`.

Environment has the variables of the agent's programs, also those that the user sets while they run.

SecretHandover passes secrets to a running shell or kernel through a named pipe. The values are only in the kernel's
memory: not on a disk, in an argument, in a readable environment or in a terminal's echo. The reader gets the path and
the names, and reads one value for each name, each followed by a zero byte. The server holds both ends open, so that
neither side ever waits.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from core.events import CmdOutputMetadata
from core.sandbox_types import check_variables
from core.secrets.command_secrets import injected
from core.terminal import COLUMNS, ROWS
from runtime.server import processes, prompt
from runtime.server.action_executor import Emit
from runtime.server.outputs import OutputLog
from runtime.server.terminal import Terminal, control_key, named_key

SHARED_MEMORY = "/dev/shm"  # noqa: S108  # mkdtemp makes a private folder in it


def _private_folder(prefix: str) -> str:
    """Make a private folder in memory if the system has one; a command's file costs a third of its time on a disk."""
    return tempfile.mkdtemp(prefix=prefix, dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None)


class Environment(Mapping[str, str]):
    """The variables by name.

    Programs that are started after a change have it from the start. The shell and the kernel, which already run, ask
    for the changes since the revision that they know.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._changed: list[str] = []

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def revision(self) -> int:
        """The number of changes so far."""
        return len(self._changed)

    def change(self, variables: Mapping[str, str | None]) -> None:
        """Set these variables; None removes one. Raises ValueError, which names the variable, and changes nothing."""
        check_variables(variables)
        for name, value in variables.items():
            if self._values.get(name) == value:
                continue
            self._changed.append(name)
            if value is None:
                del self._values[name]
            else:
                self._values[name] = value

    def changes_since(self, revision: int) -> dict[str, str | None]:
        """Return the variables that have changed since, with their values now; None for one that was removed."""
        return {name: self._values.get(name) for name in self._changed[revision:]}


class SecretHandover:
    """The secrets of one command, until closed. Raises OSError if no pipe can be made."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.names = tuple(values)
        self._folder = _private_folder("handloom-lent-")
        self.path = os.path.join(self._folder, "pipe")
        self._fd = -1
        try:
            os.mkfifo(self.path, 0o600)
            self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self._fd, b"".join(value.encode("utf-8", "surrogateescape") + b"\0" for value in values.values()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove what was not read. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with suppress(OSError):
            os.unlink(self.path)
        with suppress(OSError):
            os.rmdir(self._folder)


START_TIMEOUT_S = 10.0
INTERRUPT_STEPS = ((signal.SIGINT, 0.25), (signal.SIGINT, 0.75), (signal.SIGTERM, 0.5), (signal.SIGKILL, 0.5))
"""Signals for the foreground process and how long to wait after each; after the last, the shell itself is killed.

The second SIGINT is for a command that the shell had not started when the first one came.
"""


class ShellError(Exception):
    """The shell could not be started; the text says why."""


class Shell:
    """A bash and its terminal; a new one replaces one that ended. Belongs to one event loop."""

    def __init__(self, working_dir: str, *, environment: Environment, umask: int, log: OutputLog) -> None:
        self._working_dir = working_dir
        self._environment = environment
        self._revision = 0
        """The revision of the environment that the shell has."""
        self._umask = umask
        self.log = log
        self.cwd = working_dir
        """The shell's folder according to its last prompt."""
        self.has_listener = False
        """Whether somebody reads the live output."""
        self.terminal: Terminal | None = None
        """None before the start and after the end."""
        self._changed = asyncio.Event()
        self._size = (ROWS, COLUMNS)
        self._folder = ""
        self._number = 0
        self._begun_file = ""
        self._secrets: SecretHandover | None = None
        """The secrets of the running command."""
        self._prompt: CmdOutputMetadata | None = None
        self._exit_status: int | None = None
        self.other_prompts = 0
        """The number of prompts that did not end one of our commands."""
        self._is_closed = False

    @property
    def pid(self) -> int:
        """The shell's process ID, or -1."""
        return self.terminal.pid if self.terminal else -1

    @property
    def is_over(self) -> bool:
        """Whether the running command has ended, with a prompt or together with its shell."""
        return self._prompt is not None or self._exit_status is not None

    @property
    def has_begun(self) -> bool:
        """Whether the shell has read the command; before that, the shell itself waits for input. Blocks."""
        if not self._begun_file:
            return True  # a key
        try:
            with open(self._begun_file, "rb") as file:
                return file.read() == b"%d\n" % self._number
        except OSError:
            return False  # the first command, or it removed the file; then it is not checked

    @property
    def has_ended(self) -> bool:
        """Whether the shell itself has ended."""
        return self._exit_status is not None or self.terminal is None

    async def start(self) -> None:
        """Start the shell and wait for its first prompt. Raises ShellError."""
        if self._is_closed:
            raise ShellError("the session is closed")
        bash = shutil.which("bash", path=self._environment.get("PATH"))
        if bash is None:
            raise ShellError("bash was not found; install it, or add it to PATH")
        nonce = secrets.token_hex(16)
        self._filter = prompt.PromptFilter(nonce)
        self._number = 0
        self._prompt = self._exit_status = None
        folder = self._start_folder()
        terminal = Terminal(self._on_output, self._on_exit)
        try:
            init = self.write_file("init", prompt.init_script(nonce))
            argv = [bash, "--noprofile", "--rcfile", init, "--noediting", "-i"]
            self._revision = self._environment.revision
            env = {**self._environment, "TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat", "PWD": folder}
            terminal.start(argv, cwd=folder, env=env, umask=self._umask, size=self._size)
        except OSError as error:
            raise ShellError(f"the shell cannot be started in {folder}: {error.strerror}") from error
        self.terminal = terminal
        if not await self.ends_within(START_TIMEOUT_S) or self._prompt is None:
            await terminal.aclose()
            raise ShellError(f"the shell showed no prompt: {self.log.unread.take()}")
        self._prompt = None

    def _start_folder(self) -> str:
        return self.cwd if os.path.isdir(self.cwd) else self._working_dir

    async def restart(self) -> str:
        """Replace a shell that ended; return a sentence that says so. Raises ShellError."""
        if self.terminal is not None:
            await self.terminal.aclose()
            self.terminal = None
        await self.start()
        return prompt.fresh_shell(self.cwd)

    async def begin(self, command: str, action_id: int) -> None:
        """Pass a command, with the secrets for this task, or a special key to the idle shell."""
        assert self.terminal is not None
        await self.log.begin()
        self.terminal.reset_modes()
        key = control_key(command)
        self._begun_file = ""
        if key is None:
            self._number += 1
            path = self.write_file("command", command.replace("\0", "") + "\n")
            key = self._command_line(path)
            self._begun_file = prompt.begun_file(path)
        self._prompt = None
        self.log.action_id = action_id
        self.terminal.send_unseen(key)

    def _command_line(self, path: str) -> bytes:
        environment, changes = "", self._environment.changes_since(self._revision)
        if changes:
            environment = self.write_file("environment", prompt.environment_script(changes))
            self._revision = self._environment.revision
        if not (values := injected()):
            return prompt.command_line(path, self._number, environment=environment)
        self._remove_secrets()
        self._secrets = SecretHandover(values)
        return prompt.command_line(
            path, self._number, environment=environment, pipe=self._secrets.path, names=self._secrets.names
        )

    def _remove_secrets(self) -> None:
        """Remove secrets that the shell has not read; it unsets the others with its prompt."""
        if self._secrets is not None:
            self._secrets.close()
            self._secrets = None

    def named_key(self, text: str) -> bytes | None:
        """Return the key of this name for a program that reads keys one by one, else None."""
        assert self.terminal is not None
        return None if self.terminal.takes_lines else named_key(text, application=self.log.wants_application_keys)

    def send_input(self, typed: str | bytes) -> None:
        """Send a line, or raw keys, to the running command."""
        assert self.terminal is not None
        if isinstance(typed, str):
            self.terminal.send_line(typed.encode("utf-8", "replace"))
        else:
            self.terminal.send_unseen(typed)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal, also for later shells."""
        self._size = (rows, columns)
        self.log.unread.resize(rows, columns)
        if self.terminal is not None:
            self.terminal.resize(rows, columns)

    def mark_discarded(self) -> None:
        """Mark a command as ended whose line was discarded while the shell showed its prompt."""
        self._prompt = CmdOutputMetadata(exit_code=130, working_dir=self.cwd)

    def take_result(self) -> tuple[CmdOutputMetadata, bool]:
        """Return how the command ended and whether the shell ended with it; then no command is running."""
        self.log.end()
        self._remove_secrets()
        if self._prompt is not None:
            return self._prompt, False
        assert self._exit_status is not None
        # Shells report death by a signal as 128 plus the signal's number.
        code = self._exit_status if self._exit_status >= 0 else 128 - self._exit_status
        return CmdOutputMetadata(exit_code=code, working_dir=self.cwd), True

    async def interrupt(self) -> None:
        """End the running command, so that the shell is ready for the next one."""
        self.log.drop_unread()
        if self.log.action_id is not None and self.terminal is not None and not self.is_over:
            self.terminal.resume()
            await self._end_command()
        self._remove_secrets()
        self.log.end()
        self.log.drop_unread()
        if self._exit_status is not None:
            with suppress(ShellError):  # the next command tries again, and reports the error
                await self.restart()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the command's end; return whether it came."""
        return await self._until(lambda: self.is_over, seconds)

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        return is_so()

    def wake(self) -> None:
        """Wake up whoever waits for a change."""
        self._changed.set()

    async def change(self, within_s: float | None = None) -> None:
        """Wait for output, an end or `wake`, but no longer than `within_s`; changes since the last call count.

        This matters while a slow reader takes earlier output, because the terminal may be paused then.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        self._changed.clear()

    async def flush(self, emit: Emit) -> None:
        """Pass on the collected live output, and let the terminal continue."""
        if data := self.log.take_live():
            if self.terminal is not None:
                self.terminal.resume()
            await emit(data)
            self.log.last_at = time.monotonic()  # time spent waiting for a slow reader is not silence

    async def aclose(self) -> None:
        """End the shell and its whole session. May be called twice."""
        self._is_closed = True
        self._remove_secrets()
        if self.terminal is not None:
            await self.terminal.aclose()
            self.terminal = None
        self.log.end()
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _end_command(self) -> None:
        """Send signals to the foreground process: the command, or the shell if it runs a loop itself.

        bash ends a list of commands when one of them dies of SIGINT, but continues after another signal, so the shell
        gets a SIGINT before the stronger ones. A killed shell is awaited, because its prompt could still arrive.
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
        await self._until(lambda: self._exit_status is not None, START_TIMEOUT_S)

    def _on_output(self, data: bytes) -> None:
        self.log.last_at = time.monotonic()
        for piece in self._filter.feed(data):
            if isinstance(piece, bytes):
                self.log.feed(piece)
            elif piece.number == self._number:
                self._prompt = piece.metadata
                self.cwd = piece.metadata.working_dir or self.cwd
            else:
                self.other_prompts += 1
        if self.log.is_backed_up:
            if self.has_listener and self.terminal is not None:
                self.terminal.pause()
            else:
                self.log.drop_old()
        self._changed.set()

    def _on_exit(self, status: int) -> None:
        self._exit_status = status
        self._changed.set()

    def write_file(self, name: str, text: str) -> str:
        """Write a file for the shell in a private folder, which is made again if a command removed it."""
        if not os.path.isdir(self._folder):
            self._folder = _private_folder("handloom-shell-")
        path = os.path.join(self._folder, name)
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        return path
