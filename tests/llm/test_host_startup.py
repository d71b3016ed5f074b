"""Work of libraries that the model host skips, with the installed versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import asyncio, os, sys
from core.llm import model_host
from core.llm.model_host import skip_unneeded_work, warm
calls = []
sys.addaudithook(lambda event, args: calls.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
os.environ.update(model_host._SET_BEFORE_IMPORT)
litellm = model_host._load()
print(skip_unneeded_work(), asyncio.run(warm(litellm)), calls)
"""
"""Says which names are missing, whether a first call went through, and whom it called."""


def test_warm_host_has_all_modules_and_called_nobody() -> None:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[] True []", done.stderr
