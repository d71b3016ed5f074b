"""The log of the workspace: one JSON object a line in `logs/handloom.log`, 0600, rotated.

A screen has no standard error to write to. Line breaks and escape sequences of foreign text cannot forge lines,
because JSON escapes them. A thread takes secrets out and writes, so that no event loop waits for either.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from queue import SimpleQueue

MAX_BYTES = 1_000_000
"""Of one file; three older ones are kept."""


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "room": record.name,
            "text": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Masked(logging.Formatter):
    """A finished line without secrets."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self._mask(super().format(record))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


class _PrivateFile(RotatingFileHandler):
    """A rotating file that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_private)


class _Handover(QueueHandler):
    """Hands records, as finished lines, to a thread that writes them to a file. Closing it writes the rest."""

    def __init__(self, file: logging.Handler) -> None:
        super().__init__(SimpleQueue())
        self._file = file
        self._writer: QueueListener | None = QueueListener(self.queue, file)
        self._writer.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return logging.makeLogRecord({"msg": self.format(record)})

    def close(self) -> None:
        if self._writer is not None:
            self._writer.stop()
            self._writer = None
            self._file.close()
        super().close()


def log_to(home: Path, mask: Callable[[str], str] = str) -> None:
    """Send the log of this process to the home's file. Raises OSError where it cannot be opened.

    `mask` takes secrets out of each line; a thread calls it.
    """
    folder = home / "logs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = _PrivateFile(folder / "handloom.log", maxBytes=MAX_BYTES, backupCount=3, encoding="utf-8")
    file.setFormatter(_Masked(mask))
    handover = _Handover(file)
    handover.setFormatter(JsonLines())
    root = logging.getLogger()
    replaced, root.handlers[:] = root.handlers[:], [handover]
    for handler in replaced:
        if isinstance(handler, _Handover):
            handler.close()
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
