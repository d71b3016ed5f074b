"""The log file of a home: one JSON object per line in `logs/handloom.log`, mode 0600, rotated.

A full-screen program cannot use standard error. JSON escapes line breaks and escape sequences, so untrusted text cannot
forge lines. A thread redacts secrets and writes, so that no event loop waits for that.
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
"""Size of one file; three older files are kept."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

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


class _RedactingFormatter(logging.Formatter):
    """Redacts secrets in a formatted line."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


class _PrivateFile(RotatingFileHandler):
    """A rotating log file that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_private)


class _ThreadHandler(QueueHandler):
    """Passes formatted lines to a thread that writes them to a file. Closing writes the rest."""

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


def log_to(home: Path, redact: Callable[[str], str] = str) -> None:
    """Send the log of this process to the home's log file. Raises OSError if it cannot be opened.

    `redact` removes secrets from each line; it is called in a thread.
    """
    folder = home / "logs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = _PrivateFile(folder / "handloom.log", maxBytes=MAX_BYTES, backupCount=3, encoding="utf-8")
    file.setFormatter(_RedactingFormatter(redact))
    handler_to_file = _ThreadHandler(file)
    handler_to_file.setFormatter(JsonLines())
    root = logging.getLogger()
    replaced, root.handlers[:] = root.handlers[:], [handler_to_file]
    for handler in replaced:
        if isinstance(handler, _ThreadHandler):
            handler.close()
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
