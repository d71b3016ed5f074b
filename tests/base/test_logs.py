"""Log entries cannot be forged by their content, and only the owner can read the log."""

from __future__ import annotations

import json
import logging
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from core.logs import log_to
from core.secrets import PLACEHOLDER, Redactor
from core.secrets.redactor import without_secrets
from tests.secrets.canaries import FOUND


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in before:
            handler.close()
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(False)


def written(home: Path) -> Path:
    """The log file, after everything has been written."""
    for handler in logging.getLogger().handlers:
        handler.close()
    return home / "logs" / "handloom.log"


def test_every_record_is_one_line(tmp_path: Path) -> None:
    log_to(tmp_path)
    logging.getLogger("room").warning("a\n%s\x1b]52;c;x\x07", '{"level": "forged"}')
    path = written(tmp_path)
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["text"].startswith("a\n{")
    assert "\x1b" not in line
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_exception_is_logged_with_its_traceback(tmp_path: Path) -> None:
    log_to(tmp_path)
    try:
        raise ValueError("no good")
    except ValueError:
        logging.getLogger("room").exception("failed")
    line = json.loads(written(tmp_path).read_text())
    assert "ValueError: no good" in line["trace"]


def test_secrets_are_redacted_in_every_line(tmp_path: Path) -> None:
    known, unknown = "canary-value", FOUND[".env"]
    log_to(tmp_path, lambda line: without_secrets(line, Redactor([known])))
    try:
        raise ValueError(f"with {known}")
    except ValueError:
        logging.getLogger("room").exception("failed with %s", unknown)
    line = written(tmp_path).read_text()
    told = json.loads(line)
    assert told["text"] == f"failed with {PLACEHOLDER}"
    assert f"ValueError: with {PLACEHOLDER}" in told["trace"]
    assert known not in line


async def test_slow_writing_does_not_block_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write = threading.Event()
    monkeypatch.setattr(RotatingFileHandler, "emit", lambda *_: may_write.wait(30))
    log_to(tmp_path)
    for _ in range(100):
        logging.getLogger("room").warning("one more line")
    may_write.set()


def test_last_lines_are_written_when_the_process_ends(tmp_path: Path) -> None:
    program = "import logging, pathlib, sys; from core.logs import log_to; log_to(pathlib.Path(sys.argv[1]));"
    program += "[logging.warning('line %d', n) for n in range(1000)]"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    lines = (tmp_path / "logs" / "handloom.log").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == [f"line {n}" for n in range(1000)]
