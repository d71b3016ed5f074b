"""The process of one kernel: started in a private folder, watched, and ended with all its child processes.

Imports nothing of Jupyter, so that the kernel starts while the server still imports its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from runtime.server import processes

PROGRAM = Path(__file__).with_name("kernel_program.py")
START_TIMEOUT_S = 20.0
"""A start takes half a second on an idle machine, and several seconds on a busy one."""
LAST_WORDS_LINES = 8
"""Lines of standard error that describe the end of a kernel, such as the place of a crash."""
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


class KernelError(Exception):
    """A kernel could not be started or has ended; the text says why."""


class KernelProcess:
    """One kernel process, started by the constructor. Belongs to the running event loop.

    `folder` is created for the sockets of this kernel and removed at the end. Raises OSError.
    """

    def __init__(self, folder: Path, *, cwd: str, environ: Mapping[str, str], umask: int) -> None:
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
            with self._said.open("wb") as said:
                self._child = subprocess.Popen(
                    [sys.executable, "-P", str(PROGRAM), str(connection_file), str(ready)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    pass_fds=[ready],
                    start_new_session=True,
                    cwd=cwd if os.path.isdir(cwd) else "/",
                    env={**environ, **_private_environ(folder)},
                    umask=umask,
                )
        except BaseException:
            os.close(self._ready_fd)
            raise
        finally:
            os.close(ready)
        self.ended = asyncio.create_task(self._watch(), name=f"end of kernel {self.pid}")
        """Done when the process has ended. The result describes the end for the model."""

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its session and process group."""
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        return self.ended.done()

    @property
    def cwd(self) -> str:
        """The process's current folder; empty if unknown."""
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{self.pid}/cwd")
        return ""

    async def listens(self) -> None:
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

    def interrupt(self, *, with_all: bool) -> None:
        """Send SIGINT to the kernel, or to its process group as Ctrl+C does."""
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-self.pid if with_all else self.pid, signal.SIGINT)

    async def end(self) -> None:
        """Kill the process and everything in its session, and remove its folder. May be called twice."""
        if not self.has_ended:
            self._child.kill()
        await self.ended
        if self._ready_fd >= 0:
            os.close(self._ready_fd)
            self._ready_fd = -1
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def _said(self) -> Path:
        return self._folder / "stderr"

    async def _watch(self) -> str:
        code = await processes.wait_for_exit(self._child)
        processes.kill_all(processes.session_members(self.pid))
        said = await asyncio.to_thread(_last_words, self._said)
        return _described(code) + (f"; it said:\n{said}" if said else "")


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


def _last_words(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as said:
            return "".join(line[:200].rstrip() + "\n" for line in islice(said, LAST_WORDS_LINES)).strip()
    except OSError:
        return ""
