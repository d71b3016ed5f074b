"""What is told when a sandbox runs out of something, and how an observation carries it. Pure.

The server says it of what it sees inside, a launcher of what only the host sees; the words are the same.
"""

from __future__ import annotations

from typing import TypeVar

from core.events import CmdOutputObservation, Observation

MB = 1024 * 1024
PROCESSES_RAN_OUT = "No process could be started any more, so what was left running was ended."
T = TypeVar("T", bound=Observation)


def memory_ran_out(most_bytes: int | None) -> str:
    """`most_bytes` is what all processes together may use, where that is known."""
    bound = "" if most_bytes is None else f": all together may use {most_bytes // MB} MB"
    return f"The sandbox ran out of memory, so a process was killed{bound}."


def disk_ran_out(left_bytes: int) -> str:
    return f"The disk has only {left_bytes // MB} MB left, so what was running was ended. Free some space."


def files_ran_out(left: int) -> str:
    return f"The disk has room for only {left} more files, so what was running was ended. Remove some."


def noted(observation: T, text: str) -> T:
    """The observation with a line of ours behind it; as it is where the text is empty."""
    if not text:
        return observation
    if isinstance(observation, CmdOutputObservation):
        metadata = observation.metadata
        metadata = metadata.model_copy(update={"suffix": f"{metadata.suffix}\n[{text}]"})
        return observation.model_copy(update={"metadata": metadata})
    return observation.model_copy(update={"content": f"{observation.content}\n[{text}]"})
