"""One kernel: its process, and the requests to it.

A cell ends normally, by the death of its kernel, by its timeout, or by cancellation. In the last two cases the kernel
is interrupted, and killed if that does not help; then `has_ended` is true.

Secrets are passed through a pipe (`runtime.server.shell.SecretHandover`), so their values are in no code that the
kernel runs, keeps or traces. A variable that the kernel already has stays as it is. Processes that the cell started
keep their copy.

Jupyter's client is imported in a thread while the kernel starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.secrets.command_secrets import injected
from runtime.cancellation import run_to_completion
from runtime.plugins.jupyter.cell_output import Cell, Message
from runtime.server import processes
from runtime.server.action_executor import Emit
from runtime.server.shell import Environment, SecretHandover

if TYPE_CHECKING:
    from runtime.plugins.jupyter.channels import Channels, Take

PROGRAM = Path(__file__).with_name("kernel_program.py")
START_TIMEOUT_S = 20.0
"""A start takes half a second on an idle machine, and several seconds on a busy one."""
STDERR_LINES = 8
"""Lines of standard error that describe the end of a kernel, such as the place of a crash."""
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")

INTERRUPT_ALONE_S = 0.5
"""The first interrupt is for the kernel alone, so that background processes of earlier cells go on."""
INTERRUPT_S = 2.0
"""In total. After the time above, programs for which the kernel waits in C are interrupted too."""
BEGIN_S = 0.5
"""How long to wait until the kernel has begun the cell; before that it cannot be interrupted."""
LAST_MESSAGES_S = 0.2
"""Time for reading the last messages of a dead kernel."""
QUIET_TIMEOUT_S = 30.0
"""Timeout for code that the server runs for its own purposes."""


class KernelError(Exception):
    """A kernel could not be started or has ended; the text says why."""


class End(Enum):
    """How a cell ended."""

    DONE = "done"
    DEATH = "death"
    TIMEOUT = "timeout"


class Kernel:
    """One kernel, whose process is started by the constructor. Takes one request at a time, after `start`.

    `folder` is created for the sockets of this kernel and removed at the end. Belongs to the running event loop. Raises
    OSError.
    """

    def __init__(self, folder: Path, *, cwd: str, environment: Environment, umask: int) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        self.connection: dict[str, Any] = {
            "transport": "ipc",
            "ip": str(folder / "s"),
            "key": secrets.token_hex(32),
            "signature_scheme": "hmac-sha256",
            **{f"{channel}_port": number for number, channel in enumerate(_CHANNELS, 1)},
        }
        """The content of Jupyter's connection file."""
        connection_file = folder / "connection.json"
        connection_file.touch(0o600)
        connection_file.write_text(json.dumps(self.connection))
        self._ready_fd, ready = os.pipe()
        try:
            with (folder / "stderr").open("wb") as stderr:
                self._child = subprocess.Popen(
                    [sys.executable, "-P", str(PROGRAM), str(connection_file), str(ready)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    pass_fds=[ready],
                    start_new_session=True,
                    cwd=cwd if os.path.isdir(cwd) else "/",
                    env={**environment, **_private_environ(folder)},
                    umask=umask,
                )
        except BaseException:
            os.close(self._ready_fd)
            raise
        finally:
            os.close(ready)
        self.pid = self._child.pid
        """Process ID, which is also the ID of its session and process group."""
        self.ended = asyncio.create_task(self._watch(), name=f"end of kernel {self.pid}")
        """Done when the process has ended. The result describes the end for the model."""
        self.channels: Channels | None = None
        """The connections to the kernel; None before `start`."""
        self._ignored_interrupt = False
        self.shell_cwd = cwd
        """The folder of the shell that the kernel has followed."""
        self.init_code = ""
        """The init code that it has run."""
        self._environment, self._revision = environment, environment.revision

    async def follow_environment(self, cell: Cell) -> None:
        """Set the variables that have changed since the kernel was started, or since the last call."""
        if changes := self._environment.changes_since(self._revision):
            self._revision = self._environment.revision
            await self.ask(_in_namespace(_CHANGE_VARIABLES.format(changes=changes)), cell)

    async def start(self) -> None:
        """Wait until the kernel is ready. If that fails or is cancelled, it is ended. Raises KernelError."""
        try:
            await asyncio.to_thread(import_module, "runtime.plugins.jupyter.channels")
            await self._wait_until_listening()
            from runtime.plugins.jupyter.channels import Channels

            self.channels = Channels(self.connection)
            subscribed = asyncio.create_task(self.channels.subscribed(), name="subscription to the kernel")
            try:
                waited = {subscribed, self.ended}
                await asyncio.wait(waited, timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
                if not subscribed.done():
                    raise KernelError(self.ended.result() if self.ended.done() else "it does not answer")
            finally:
                subscribed.cancel()
        except BaseException:
            await run_to_completion(self.end())
            raise

    async def end(self) -> None:
        """Kill the process and everything in its session, and remove its folder. May be called twice."""
        if self.channels is not None:
            self.channels.close()
        if not self.ended.done():
            self._child.kill()
        await asyncio.wait({self.ended})
        if self._ready_fd >= 0:
            os.close(self._ready_fd)
            self._ready_fd = -1
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def has_ended(self) -> bool:
        return self.ended.done() or self._ignored_interrupt

    @property
    def end_reason(self) -> str:
        """Describes the end for the model. Only available once it has ended."""
        return "it did not obey an interrupt, and was killed" if self._ignored_interrupt else self.ended.result()

    @property
    def cwd(self) -> str:
        """The kernel's current folder; empty if unknown."""
        with suppress(OSError):
            return os.readlink(f"/proc/{self.pid}/cwd")
        return ""

    async def run(self, code: str, cell: Cell, emit: Emit, timeout_s: float) -> End:
        """Execute a cell; live bytes go to `emit`. Cancelling, or an exception of `emit`, interrupts the cell."""
        ends_at = asyncio.get_running_loop().time() + timeout_s
        running = self._execute(code, cell.take)
        is_over = False
        try:
            end = await self._follow(running, cell, emit, ends_at)
            is_over = end is not End.TIMEOUT
            return end
        finally:
            cell.stop_listening()
            if not is_over:
                await run_to_completion(self._interrupt(running, cell))
            running.cancel()
            await asyncio.wait([running])

    async def ask(self, code: str, cell: Cell | None = None) -> str:
        """Execute code without showing its output. Returns the error, or an empty string.

        Late output of earlier cells goes to `cell`.
        """

        async def take(message: Message, is_mine: bool) -> None:
            if cell is not None and not is_mine:
                cell.keep(message, is_mine)

        running = self._execute(code, take, silent=True)
        try:
            await self._first_of(running, timeout_s=QUIET_TIMEOUT_S)
            if not running.done() and self.ended.done():
                return self.ended.result()
            if not running.done():
                await run_to_completion(self._interrupt(running, None))
                return "it took too long"
            reply = running.result()
            return "" if reply["status"] == "ok" else f"{reply.get('ename')}: {reply.get('evalue')}"
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def _wait_until_listening(self) -> None:
        """Wait until the kernel accepts connections. Raises KernelError."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._ready_fd, readable.set)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await readable.wait()
        except TimeoutError:
            raise KernelError(f"it was not ready after {START_TIMEOUT_S:.0f} s") from None
        finally:
            loop.remove_reader(self._ready_fd)
        if not os.read(self._ready_fd, 1):
            raise KernelError(await self.ended)

    async def _watch(self) -> str:
        code = await processes.wait_for_exit(self._child)
        processes.kill_all(processes.session_members(self.pid))
        stderr = await asyncio.to_thread(_first_lines, self._folder / "stderr")
        return _described(code) + (f"; it said:\n{stderr}" if stderr else "")

    def _execute(self, code: str, take: Take, *, silent: bool = False) -> asyncio.Task[Message]:
        assert self.channels is not None
        return asyncio.create_task(self.channels.execute(code, take, silent=silent), name="request to the kernel")

    async def _first_of(self, *tasks: asyncio.Task[Any], timeout_s: float) -> None:
        """Wait for one of the tasks, for the end of the process, or for the timeout."""
        await asyncio.wait({self.ended, *tasks}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    async def _follow(self, running: asyncio.Task[Message], cell: Cell, emit: Emit, ends_at: float) -> End:
        """Forward live bytes until the cell has ended or its time is over."""
        loop = asyncio.get_running_loop()
        while True:
            if (frame := cell.take_live()) is not None:
                await emit(frame)
            elif running.done():
                running.result()
                return End.DONE
            elif self.ended.done():
                await asyncio.wait({running}, timeout=LAST_MESSAGES_S)
                if (rest := cell.take_live()) is not None:
                    await emit(rest)
                return End.DONE if running.done() and not running.exception() else End.DEATH
            elif loop.time() >= ends_at:
                return End.TIMEOUT
            else:
                printed = asyncio.create_task(cell.printed.wait())
                try:
                    await self._first_of(running, printed, timeout_s=ends_at - loop.time())
                finally:
                    printed.cancel()

    async def _interrupt(self, running: asyncio.Task[Message], cell: Cell | None) -> None:
        """Interrupt the request, and kill the kernel if it does not stop within INTERRUPT_S."""
        if cell is not None:
            cell.stop_listening()
            begun = asyncio.create_task(cell.begun.wait())
            try:
                await self._first_of(running, begun, timeout_s=BEGIN_S)
            finally:
                begun.cancel()
        for pid, timeout_s in ((self.pid, INTERRUPT_ALONE_S), (-self.pid, INTERRUPT_S - INTERRUPT_ALONE_S)):
            if running.done() or self.ended.done():
                return
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
            await self._first_of(running, timeout_s=timeout_s)
        if not running.done() and not self.ended.done():
            self._ignored_interrupt = True
            await self.end()


def _private_environ(folder: Path) -> dict[str, str]:
    """Keep Jupyter, IPython and matplotlib out of the user's home folder, which may not be accessible."""
    names = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    shared = folder.parent / "matplotlib"
    return {
        **{name: str(folder / "home") for name in names},
        "MPLCONFIGDIR": str(shared),  # shared by all kernels of a server: building its font list takes a second
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "JPY_SESSION_NAME": "handloom",
    }


def _described(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    return f"it was killed by {name}" + (", as when memory runs out" if -code == signal.SIGKILL else "")


def _first_lines(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return "".join(line[:200].rstrip() + "\n" for line in islice(lines, STDERR_LINES)).strip()
    except OSError:
        return ""


_SET_SECRETS = """
import os, sys
names, left = {names!r}, b""
pipe = os.open({path!r}, os.O_RDONLY)
while left.count(b"\\0") < len(names):
    left += os.read(pipe, 65536)
os.close(pipe)
sys._handloom_lent = [name for name in names if name not in os.environ]
for name, value in zip(names, left.split(b"\\0")):
    if name in sys._handloom_lent:
        os.environ[name] = os.fsdecode(value)
"""
_REMOVE_SECRETS = """
import os, sys
for name in sys.__dict__.pop("_handloom_lent", ()):
    os.environ.pop(name, None)
"""


_CHANGE_VARIABLES = """
import os
for name, value in {changes!r}.items():
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
"""


@asynccontextmanager
async def secrets_in_environment(kernel: Kernel, cell: Cell) -> AsyncIterator[None]:
    """Put the secrets lent to this task into the kernel's environment, and always remove them again."""
    if not (values := injected()):
        yield
        return
    handover = SecretHandover(values)
    try:
        await kernel.ask(_in_namespace(_SET_SECRETS.format(names=handover.names, path=handover.path)), cell)
        handover.close()
        yield
    finally:
        handover.close()
        if not kernel.has_ended:
            await kernel.ask(_in_namespace(_REMOVE_SECRETS), cell)


def _in_namespace(code: str) -> str:
    """Wrap code so that it runs in a namespace of its own."""
    return f"exec({code!r}, {{}})"
