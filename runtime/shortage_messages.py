"""Messages for a sandbox that runs out of memory, disk or processes, and how to add them to an observation. Pure.

The action server uses them for what it sees inside, the launchers for what only the host sees.
"""

from __future__ import annotations

from typing import TypeVar

from core.events import CmdOutputObservation, Observation

MB = 1024 * 1024
PROCESSES_RAN_OUT = "No more processes could be started, so running commands were ended."
T = TypeVar("T", bound=Observation)


def memory_ran_out(most_bytes: int | None) -> str:
    """Return the message for a process killed for lack of memory; `most_bytes` is the limit for all processes, if
    known.
    """
    bound = "" if most_bytes is None else f": the limit for all processes is {most_bytes // MB} MB"
    return f"The sandbox ran out of memory, so a process was killed{bound}."


def disk_ran_out(left_bytes: int) -> str:
    return f"The disk has only {left_bytes // MB} MB left, so running commands were ended. Free some space."


def files_ran_out(left: int) -> str:
    return f"The disk has room for only {left} more files, so running commands were ended. Remove some."


def with_note(observation: T, text: str) -> T:
    """Return the observation with a note appended, or unchanged if the note is empty."""
    if not text:
        return observation
    if isinstance(observation, CmdOutputObservation):
        metadata = observation.metadata
        metadata = metadata.model_copy(update={"suffix": f"{metadata.suffix}\n[{text}]"})
        return observation.model_copy(update={"metadata": metadata})
    return observation.model_copy(update={"content": f"{observation.content}\n[{text}]"})
