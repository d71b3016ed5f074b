"""The registry of the modules that measure, and how one is called."""

from __future__ import annotations

from importlib import import_module

from tests.bench.figure import Figure

AREAS = (
    "appends",
    "bursts",
    "dispatch",
    "pages",
    "resume",
    "library",
    "agent_sessions",
    "commands",
    "lines",
    "terminal",
    "redaction",
    "gigabyte",
    "edits",
    "checkpointing",
    "containers",
    "server",
    "browsing",
    "page_picture",
    "kernels",
    "model_calls",
    "prefixes",
    "steps",
    "stalls",
    "many",
    "transcript",
    "first_frame",
    "keys",
    "batch_rows",
    "batch",
)
"""In the order in which they are run; each has `measure() -> list[Figure]`."""


def measure(area: str) -> list[Figure]:
    """The figures of one area. Runs in a process of its own."""
    figures: list[Figure] = import_module(f"tests.bench.{area}").measure()
    return figures
