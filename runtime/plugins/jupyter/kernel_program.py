"""The program of the kernel's process: ipykernel, changed so that it loses no output and buffers a limited amount.

Run by its path, `python -P kernel_program.py CONNECTION_FILE READY_FD`. Imports nothing of Handloom, so that it starts
as fast as a plain kernel. Where ipykernel drops output that its reader has not taken, this program makes the cell wait.
Output that child processes of a cell wrote is read before the cell is reported as done.
"""

from __future__ import annotations

# ruff: noqa: E402 -- what is imported below must not come from where cells import from
import os
import sys

_BEFORE = sys.path[:]
"""`sys.path` for cells; folders of PYTHONPATH come last until the kernel's modules are loaded."""
sys.path.sort(key=set(map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))).__contains__)

import array
import codecs
import contextlib
import ctypes
import faulthandler
import fcntl
import select
import signal
import sysconfig
import termios
import threading
from typing import Any

import zmq
from ipykernel.iostream import IOPubThread, OutStream
from ipykernel.kernelapp import IPKernelApp
from IPython.core.formatters import PlainTextFormatter
from jupyter_client.session import Session
from traitlets.config import Config

OOM_SCORE = 500
"""Linux kills the kernel before the server when memory runs out."""
WAITING_MESSAGES = 500
"""Published but unsent messages above which the cell waits."""
BUFFERED_CHARS = 2 * 1024 * 1024
"""Printed but unpublished characters above which the cell waits."""
PIECE_CHARS = 512 * 1024
"""Limit for the text of one message."""
TEXT_CHARS = 8 * 1024 * 1024
"""Limit for a text representation or a traceback; the middle of a longer one is left out."""
DATA_CHARS = 24 * 1024 * 1024
"""Limit for an image in base64; a larger one is left out."""
LEFT_OUT = "\n[... {} characters are left out ...]\n"
FIGURE_TEXTS, FIGURE_CHARS = 12, 200
"""Limits for the series and axes of a figure that are named in its text, and for one of their names."""
_PR_SET_PDEATHSIG = 1
_CONTENT = {"display_data": "data", "execute_result": "data", "update_display_data": "data"}


class BoundedSession(Session):
    """Limits messages to the size that the reader accepts."""

    def serialize(self, msg: dict[str, Any], ident: Any = None) -> list[bytes]:
        content = msg.get("content")
        if isinstance(content, dict) and msg.get("msg_type") == "error":
            content["traceback"] = bounded("\n".join(content["traceback"])).split("\n")
            content["evalue"] = bounded(str(content["evalue"]), PIECE_CHARS)
        elif isinstance(content, dict) and msg.get("msg_type") == "execute_reply" and "traceback" in content:
            content["traceback"] = []  # already published
            content["evalue"] = bounded(str(content["evalue"]), PIECE_CHARS)
        elif isinstance(content, dict) and msg.get("msg_type") in _CONTENT:
            content["data"] = {kind: of for kind, value in content["data"].items() if (of := fitting(kind, value))}
        try:
            serialized: list[bytes] = super().serialize(msg, ident)
        except UnicodeEncodeError:
            serialized = super().serialize({**msg, "content": encodable(content)}, ident)
        return serialized


def encodable(value: Any) -> Any:
    """Replace lone surrogates, which cannot be encoded."""
    if isinstance(value, dict):
        return {encodable(key): encodable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [encodable(part) for part in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def bounded(text: str, limit: int = TEXT_CHARS) -> str:
    """Leave out the middle of a text that is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return text[:half] + LEFT_OUT.format(len(text) - 2 * half) + text[-half:]


def fitting(kind: str, value: Any) -> Any:
    """Truncate a text representation; returns None for other data that is too large."""
    if isinstance(value, str) and kind.startswith("text/"):
        return bounded(value)
    if isinstance(value, str) and len(value) > DATA_CHARS:
        return None
    return value


class PatientThread(IOPubThread):
    """Publishes messages, and makes threads wait that publish faster than it can send."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._room = threading.BoundedSemaphore(WAITING_MESSAGES)

    def send_multipart(self, *args: Any, **kwargs: Any) -> None:
        if threading.current_thread() is self.thread or not self._is_master_process():
            super().send_multipart(*args, **kwargs)
            return
        self._room.acquire()

        def send() -> None:
            try:
                self._really_send(*args, **kwargs)
            finally:
                self._room.release()

        self.schedule(send)


class FaithfulStream(OutStream):
    """Standard output or error in the right order, including what child processes write to the descriptor."""

    _last: FaithfulStream | None = None
    """The stream that was written to last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._taking = threading.Lock()
        self._fid: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting_bytes = array.array("i", [0])
        self._waiting_chars = 0
        super().__init__(*args, **{**kwargs, "watchfd": "force"})  # ipykernel does not watch under pytest

    def _watch_pipe_fd(self) -> None:
        assert self._fid is not None
        poll = select.poll()
        poll.register(self._fid, select.POLLIN)
        is_open = True
        while self._should_watch and is_open:
            is_open = any(event & select.POLLIN for _, event in poll.poll())  # a cell can close its descriptors
            self._take_written()

    def _take_written(self) -> None:
        """Read what is in the pipe now, without waiting for more."""
        if self._fid is None or not self._is_master_process():
            return
        with self._taking:
            fcntl.ioctl(self._fid, termios.FIONREAD, self._waiting_bytes)
            if (count := self._waiting_bytes[0]) and (text := self._decoder.decode(os.read(self._fid, count))):
                self._write(text)

    def write(self, string: str) -> int:
        if isinstance(string, str):
            self._take_written()
            last, FaithfulStream._last = FaithfulStream._last, self
            if last is not None and last is not self and last._waiting_chars:
                last.flush()
        return self._write(string)

    def _write(self, string: str) -> int:
        if not isinstance(string, str) or len(string) <= PIECE_CHARS:
            return self._write_piece(string)
        for start in range(0, len(string), PIECE_CHARS):
            self._write_piece(string[start : start + PIECE_CHARS])
        return len(string)

    def _write_piece(self, string: str) -> int:
        super().write(string)
        self._waiting_chars += len(string)
        if self._waiting_chars > BUFFERED_CHARS and threading.current_thread() is not self.pub_thread.thread:
            super().flush()
        return len(string)

    def _rotate_buffers(self) -> Any:
        self._waiting_chars = 0
        return super()._rotate_buffers()

    def fileno(self) -> int:
        """The descriptor for child processes."""
        descriptor: int = self._original_stdstream_fd
        return descriptor

    def flush(self) -> None:
        """Send what was written. Unlike ipykernel's, waits until it is sent: C code that holds the interpreter lock
        would otherwise delay it."""
        self._take_written()
        publisher = self.pub_thread
        if not publisher.thread.is_alive() or threading.current_thread() is publisher.thread:
            super().flush()
            return
        sent = threading.Event()
        publisher.schedule(self._flush)
        publisher.schedule(lambda: publisher.schedule(sent.set))  # after what _flush has scheduled
        sent.wait(self.flush_timeout)


class KernelProgram(IPKernelApp):
    """IPKernelApp with the classes above."""

    def _session_default(self) -> Session:
        return BoundedSession(parent=self)

    def init_iopub(self, context: Any) -> None:
        """Open the iopub socket as ipykernel does, but never drop a message for a slow reader."""
        self.iopub_socket = context.socket(zmq.XPUB)
        self.iopub_socket.linger = 1000
        self.iopub_socket.setsockopt(zmq.XPUB_NODROP, 1)
        self.iopub_port = self._bind_socket(self.iopub_socket, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = PatientThread(self.iopub_socket, pipe=True, session=self.session)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket


def settings() -> Config:
    """Return the configuration: no history, no colours, no startup files of the user, and our output class."""
    config = Config()
    config.IPKernelApp.outstream_class = "__main__.FaithfulStream"
    config.InteractiveShell.colors = "NoColor"
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.IPKernelApp.log_level = "CRITICAL"
    config.IPKernelApp.exec_files = []
    config.IPKernelApp.ignore_cwd = False
    return config


class Texts(PlainTextFormatter):
    """Adds the words that are drawn in a matplotlib figure, for readers of the text alone.

    A printer for the type would not last: matplotlib takes printers of figures away when it is set up.
    """

    def __call__(self, shown: Any) -> Any:
        text = super().__call__(shown)
        kind = type(shown)
        if isinstance(text, str) and (kind.__module__, kind.__name__) == ("matplotlib.figure", "Figure"):
            with contextlib.suppress(Exception):  # the boundary to a library whose objects a cell can change
                text = "\n".join([text, *figure_lines(shown)])
        return text


def figure_lines(figure: Any) -> list[str]:
    """The title of a figure, and a line for each of its axes that has a title, labels or named series."""
    above = getattr(figure, "_suptitle", None)
    lines = [f"  {named(above.get_text())}"] if above is not None and above.get_text() else []
    for axes in figure.axes[:FIGURE_TEXTS]:
        parts = [named(title) for place in ("left", "center", "right") if (title := axes.get_title(place))]
        for name in ("x", "y"):
            if label := getattr(axes, f"get_{name}label")():
                low, high = getattr(axes, f"get_{name}lim")()
                parts.append(f"{name}: {named(label)} from {low:.4g} to {high:.4g}")
        _, labels = axes.get_legend_handles_labels()
        if labels:
            parts.append("series: " + ", ".join(map(named, labels[:FIGURE_TEXTS])))
        if parts:
            lines.append("  " + "; ".join(parts))
    return lines


def named(text: str) -> str:
    """One line with quotes around it."""
    return f'"{" ".join(text.split())[:FIGURE_CHARS]}"'


def paths_for_cells(paths: list[str]) -> list[str]:
    """Order `sys.path`: the standard library, then the current folder, which `-P` has excluded, then the rest.

    The permission rules know what functions of the standard library do, so a file of the workspace must not replace
    one of its modules.
    """
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    standard |= {
        f"{os.path.dirname(path)}/python{sys.version_info.major}{sys.version_info.minor}.zip" for path in standard
    }
    standard |= {os.path.join(path, "lib-dynload") for path in standard}
    return [*filter(standard.__contains__, paths), "", *(path for path in paths if path not in standard)]


def become_a_child() -> None:
    """Make this process die with the server, and before it when memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(str(OOM_SCORE))
    if sys.platform == "linux":
        server = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != server:
            sys.exit(1)


def main(connection_file: str, ready_fd: int) -> None:
    """Run the kernel; writes one byte to `ready_fd` when it accepts connections."""
    become_a_child()
    faulthandler.enable(os.dup(2), all_threads=False)
    application = KernelProgram.instance(config=settings())
    application.initialize(["-f", connection_file])
    shell: Any = application.shell
    shell.display_formatter.formatters["text/plain"] = Texts(parent=shell.display_formatter)
    sys.path[:] = paths_for_cells(_BEFORE)
    os.write(ready_fd, b"r")
    os.close(ready_fd)
    application.start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
