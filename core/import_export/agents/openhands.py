"""Conversations of OpenHands: of its SDK and CLI, and of version 0, which has one file for each event too.

    ~/.openhands/conversations/<id>/base_state.json, events/event-00000-<event id>.json, subagents/<id>/...
    ~/.openhands/sessions/<id>/metadata.json, events/0.json       version 0, whose events are Handloom's own vocabulary

The numbers in the names give the order, and `parent_id` makes a tree: the branch that ends at the state's
`leaf_event_id` is the transcript. `core.import_export.sdk_import` translates most events. What it does not know, such
as the tools `grep`, `apply_patch` and `task`, becomes the action that the same tool of any other agent becomes. Times
have no zone and are this machine's. Seen: SDK and tools 1.58.2, CLI 1.16.0 with SDK 1.21.0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.import_export.agents import files, openhands_records
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import (
    Transcript,
    as_time,
    first_line,
    local_time,
    text_of,
)
from core.import_export.bounded_json import Fault

NAME = "openhands"
JsonObject = dict[str, Any]

_SDK_NAME = re.compile(r"event-(\d{5,9})-[0-9A-Za-z-]{1,64}\.json")
_V0_NAME = re.compile(r"(\d{1,9})\.json")
_STATE_BYTES = 256 * 1024
_FIRST_EVENTS = 6
"""How many events a list looks at for the first prompt."""
_MAX_NESTING = 3
"""Sub-agents of sub-agents."""
_OF_SUB_AGENT = "task:"
"""How the names of the usage of sub-agents begin, which a conversation has too: their own conversations count it."""


def discover(places: Places) -> Iterator[AgentSession]:
    """The conversations of the SDK and the CLI, their sub-agents, and the sessions of version 0."""
    home = places.variable("OH_PERSISTENCE_DIR", places.home / ".openhands")
    home = places.variable("OPENHANDS_PERSISTENCE_DIR", home)
    for root in (places.variable("OPENHANDS_CONVERSATIONS_DIR", home / "conversations"), home / "sessions"):
        for folder in _folders(root):
            yield from _sessions(root, folder, "")


def read(session: AgentSession) -> Transcript:
    """The live branch of a conversation, and its other branches. Raises OSError and Fault."""
    names = _event_files(session.path)
    if not names:
        raise FileNotFoundError(f"There are no events in {session.path}")
    if sum(size for _number, _name, size in names) > files.MAX_FILE_BYTES:
        raise Fault(f"its events have more than {files.MAX_FILE_BYTES // 1_000_000} MB, which is the limit")
    transcript = Transcript(NAME, session.title, session.folder, session.model)
    events: list[tuple[str, JsonObject]] = []
    for _number, name, _size in names:
        event = _json(session, Path("events", name))
        if isinstance(event, dict):
            events.append((name, event))
    if len(events) < len(names):
        transcript.warnings.append(f"Events that could not be read, and were left out: {len(names) - len(events)}.")
    if not events:
        raise Fault("none of its events can be read")
    if _V0_NAME.fullmatch(names[0][1]):
        openhands_records.read_v0(transcript, events)
    else:
        state = _json(session, Path("base_state.json"))
        openhands_records.read_sdk(transcript, events, state, _children(session))
    return transcript


# -- the list ----------------------------------------------------------------------------------------------------------


def _sessions(root: Path, folder: Path, parent: str, level: int = 0) -> Iterator[AgentSession]:
    with suppress(OSError, Fault):
        if (found := _session(root, folder, parent)) is not None:
            yield found
    if level < _MAX_NESTING:
        for inner in _folders(folder / "subagents"):
            yield from _sessions(root, inner, folder.name, level + 1)


def _session(root: Path, folder: Path, parent: str) -> AgentSession | None:
    names = _event_files(folder)
    if not names:
        return None
    session = AgentSession(agent=NAME, id=folder.name, root=root, path=folder)
    state = _json(session, Path("base_state.json"), _STATE_BYTES)
    about = _json(session, Path("meta.json"), _STATE_BYTES) or _json(session, Path("metadata.json"), _STATE_BYTES)
    started = prompt = ""
    for _number, name, _bytes in names[:_FIRST_EVENTS]:
        event = _json(session, Path("events", name), files.EDGE_BYTES)
        started = started or local_time(files.text(event, "timestamp"))
        if files.text(event, "source") == "user":
            found = files.inner(event, "llm_message") or files.inner(event, "args")
            if prompt := first_line(text_of(found.get("content"))):
                break
    usage = files.inner(state, "stats", "usage_to_metrics")
    is_parent = bool(_folders(folder / "subagents"))
    metrics = [each for name, each in usage.items() if not (is_parent and name.startswith(_OF_SUB_AGENT))]
    used = [files.inner(each, "accumulated_token_usage") for each in metrics]
    costs = [cost for each in metrics if (cost := files.dollars(each, "accumulated_cost")) is not None]
    cost = sum(costs) if costs else files.dollars(about, "accumulated_cost")
    changed = max(_changed(folder / "events"), _changed(folder / "base_state.json"))
    return AgentSession(
        agent=NAME,
        id=folder.name,
        root=root,
        path=folder,
        title=first_line(files.text(about, "title")) or prompt,
        folder=files.text(files.inner(state, "workspace"), "working_dir"),
        model=files.text(files.inner(state, "agent", "llm"), "model") or files.text(about, "llm_model"),
        started_at=as_time(started),
        updated_at=as_time(changed / 1e9),
        size=sum(size for _number, _name, size in names),
        changed_ns=changed,
        parent_id=parent,
        tokens=sum(files.number(each, key) for each in used for key in ("prompt_tokens", "completion_tokens"))
        or files.number(about, "total_tokens"),
        cost=cost,
    )


def _folders(root: Path) -> list[Path]:
    with suppress(OSError), os.scandir(root) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def _event_files(folder: Path) -> list[tuple[int, str, int]]:
    """The number, name and size of each event file, in the order of their numbers."""
    found = [
        (int(match[1]), file.path.name, file.size)
        for file in files.walk(folder / "events", ".json", depth=1)
        if (match := _SDK_NAME.fullmatch(file.path.name) or _V0_NAME.fullmatch(file.path.name))
    ]
    return sorted(found)


def _json(session: AgentSession, name: Path, size: int = 0) -> Any:
    """The value in a file of a conversation, or its first bytes; None if it cannot be read."""
    with suppress(OSError, Fault), files.open_below(session.root, session.path / name) as file:
        return files.beginning(file, size) if size else files.read_json(file)
    return None


def _changed(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_mtime_ns
    return 0


def _children(session: AgentSession) -> dict[str, str]:
    """The conversation of each sub-agent, by the prompt with which it was started."""
    found: dict[str, str] = {}
    for folder in _folders(session.path / "subagents"):
        for _number, name, _size in _event_files(folder)[:_FIRST_EVENTS]:
            event = _json(session, Path("subagents", folder.name, "events", name))
            if isinstance(event, dict) and (prompt := text_of(files.inner(event, "llm_message").get("content"))):
                found.setdefault(prompt, folder.name)
                break
    return found
