"""The log cannot be forged by what it tells of, and is the owner's alone."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.logs import log_to


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


def test_one_record_is_one_line_whatever_it_says(tmp_path: Path) -> None:
    log_to(tmp_path)
    logging.getLogger("room").warning("a\n%s\x1b]52;c;x\x07", '{"level": "forged"}')
    path = tmp_path / "logs" / "handloom.log"
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["text"].startswith("a\n{")
    assert "\x1b" not in line
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_exception_is_told_with_its_trace(tmp_path: Path) -> None:
    log_to(tmp_path)
    try:
        raise ValueError("no good")
    except ValueError:
        logging.getLogger("room").exception("failed")
    line = json.loads((tmp_path / "logs" / "handloom.log").read_text())
    assert "ValueError: no good" in line["trace"]
