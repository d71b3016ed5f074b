"""Conversations of OpenHands: of its SDK and CLI, and of version 0, which has one file for each event too.

    ~/.openhands/conversations/<id>/base_state.json, events/event-00000-<event id>.json, subagents/<id>/...
    ~/.openhands/sessions/<id>/metadata.json, events/0.json       version 0, whose events are Handloom's own vocabulary

The numbers in the names give the order, and `parent_id` makes a tree: the branch that ends at the state's
`leaf_event_id` is the transcript. `core.import_export.sdk_import` translates most events. What it does not know, such
as the tools `grep`, `apply_patch` and `task`, becomes the action that the same tool of any other agent becomes. Times
have no zone and are this machine's. Seen: SDK and tools 1.58.2.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.import_export import sdk_import
from core.import_export.agents import files
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import (
    Branch,
    Transcript,
    Usage,
    as_time,
    difference,
    first_line,
    local_time,
    pictures_of,
    text_of,
)
from core.import_export.bounded_json import Fault

NAME = "openhands"
JsonObject = dict[str, Any]

_SDK_NAME = re.compile(r"event-(\d{5,9})-[0-9A-Za-z-]{1,64}\.json")
_V0_NAME = re.compile(r"(\d{1,9})\.json")
_ROOT = "__root__"
"""The parent of an event that begins a new tree."""
_NO_NODES = ("ConversationStateUpdateEvent", "ConversationErrorEvent")
"""Events that are written between the others and are nobody's parent."""
_STATE_BYTES = 256 * 1024
_FIRST_EVENTS = 6
"""How many events a list looks at for the first prompt."""
_MAX_BRANCHES = 20
_MAX_NESTING = 3
"""Sub-agents of sub-agents."""
_THOUGHT = "thought of "


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
        _read_v0(transcript, events)
    else:
        _read_sdk(session, transcript, events)
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
    metrics = files.inner(state, "stats", "usage_to_metrics").values()
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


# -- version 0 ---------------------------------------------------------------------------------------------------------


def _read_v0(transcript: Transcript, events: list[tuple[str, JsonObject]]) -> None:
    """Events that are in V0 form already, with their ids made places in the list."""
    new: dict[int, int] = {}
    for place, (name, event) in enumerate(events):
        kind = event.get("action", event.get("observation"))
        transcript.at(local_time(event.get("timestamp")), name, kind if isinstance(kind, str) else "")
        if isinstance(id := event.get("id"), int):
            new[id] = place
        if not isinstance(kind, str) or ("action" in event and "observation" in event):
            transcript.unknown("event", event)
            continue
        cause = event.get("cause")
        form = {key: value for key, value in event.items() if key != "cause"}
        if isinstance(cause, int) and new.get(cause, place) < place:
            form["cause"] = new[cause]
        if kind == "condensation":
            form = _with_places(form, new)
        transcript.add(form)


def _with_places(form: JsonObject, new: dict[int, int]) -> JsonObject:
    args = files.inner(form, "args")
    for key in ("forgotten_events_start_id", "forgotten_events_end_id"):
        if isinstance(args.get(key), int):
            args[key] = new.get(args[key])
    if isinstance(old := args.get("forgotten_event_ids"), list):
        args["forgotten_event_ids"] = [new[id] for id in old if isinstance(id, int) and id in new]
    return {**form, "args": args}


# -- the SDK -----------------------------------------------------------------------------------------------------------


def _read_sdk(session: AgentSession, transcript: Transcript, events: list[tuple[str, JsonObject]]) -> None:
    state = _json(session, Path("base_state.json"))
    tree = _Tree.of([event for _name, event in events], files.text(state, "leaf_event_id"))
    reader = _SdkReader(_usages(state), _children(session))
    reader.read(transcript, [events[place] for place in tree.branch(tree.leaf)])
    others = tree.other_leaves()
    for leaf in others[:_MAX_BRANCHES]:
        places = tree.branch(leaf)
        branch = Transcript(NAME, transcript.title, transcript.folder, transcript.model)
        reader.read(branch, [events[place] for place in places])
        prompts = (_prompt(events[place][1]) for place in places if place > tree.fork_of(leaf))
        transcript.branches.append(Branch(next(filter(None, prompts), "") or f"Until event {leaf}", branch))
    if len(others) > _MAX_BRANCHES:
        transcript.warnings.append(f"There are {len(others)} other branches; the first {_MAX_BRANCHES} are shown.")


@dataclass(slots=True)
class _Tree:
    """The events of one conversation as a tree; all values are places in the list."""

    parents: list[int]
    """-1 for a root."""
    is_node: list[bool]
    leaf: int
    live: frozenset[int]

    @classmethod
    def of(cls, events: list[JsonObject], leaf_id: str) -> _Tree:
        places: dict[str, int] = {}
        parents: list[int] = []
        is_node = [files.text(event, "kind") not in _NO_NODES for event in events]
        before = -1
        for place, event in enumerate(events):
            parent = files.text(event, "parent_id")
            found = -1 if parent == _ROOT else places.get(parent, before)  # old events name no parent
            parents.append(found)
            if is_node[place]:
                before = place
                if id := files.text(event, "id"):
                    places.setdefault(id, place)
        tree = cls(parents, is_node, places.get(leaf_id, before), frozenset())
        tree.live = frozenset(tree.path(tree.leaf))
        return tree

    def path(self, leaf: int) -> Iterator[int]:
        """The places from a leaf to its root. A parent comes before its child, so that this ends."""
        while leaf >= 0:
            yield leaf
            leaf = self.parents[leaf]

    def branch(self, leaf: int) -> list[int]:
        """The events on the way to a leaf in order, with the events between them that are no nodes."""
        found = set(self.path(leaf))
        between = (
            place
            for place, is_node in enumerate(self.is_node)
            if not is_node and (self.parents[place] in found or self.parents[place] < 0)
        )
        return sorted(found.union(between))

    def other_leaves(self) -> list[int]:
        """The nodes outside the live branch that are nobody's parent, the newest first."""
        taken = {parent for place, parent in enumerate(self.parents) if self.is_node[place]}
        count = len(self.parents)
        return [
            place
            for place in range(count - 1, -1, -1)
            if self.is_node[place] and place not in taken and place not in self.live
        ]

    def fork_of(self, leaf: int) -> int:
        """Where a branch leaves the live one; -1 if it has its own root."""
        return next((place for place in self.path(leaf) if place in self.live), -1)


class _SdkReader:
    """Makes the events of branches of one conversation."""

    def __init__(self, usages: dict[str, Usage], children: dict[str, str]) -> None:
        self.usages, self.children = usages, children

    def read(self, transcript: Transcript, events: list[tuple[str, JsonObject]]) -> None:
        expanded = list(_with_thoughts(events))
        known = [event for _name, event in expanded]
        forms = sdk_import.as_v0(known)
        places: list[int] = []
        """The place in the transcript of each event."""
        for (name, event), form in zip(expanded, forms, strict=True):
            kind = str(event.get("kind"))
            transcript.at(local_time(event.get("timestamp")), name, kind)
            if answer := files.text(event, "llm_response_id"):
                transcript.spent(self.usages.get(answer, Usage()), answer)
            places.append(len(transcript.forms))
            self._event(transcript, event, _moved(form, places))

    def _event(self, transcript: Transcript, event: JsonObject, form: JsonObject) -> None:
        kind, call = str(event.get("kind")), files.text(event, "tool_call_id")
        seen = files.inner(event, "observation")
        is_known = not str(form.get("action", form.get("observation"))).startswith("sdk.")
        if kind == "ActionEvent" and not is_known:
            arguments = files.inner(event, "tool_call").get("arguments") or files.inner(event, "action")
            transcript.says(text_of(event.get("thought")))
            name = files.text(event, "tool_name") or "tool"
            task = files.text(files.inner(event, "action"), "prompt")
            transcript.call(call, name, arguments, child=self.children.get(task, ""))
        elif kind == "ObservationEvent" and (not is_known or seen.get("is_error") is True):
            self._result(transcript, call, seen)
        elif kind == "AgentErrorEvent" and transcript.has_call(call):
            transcript.result(call, files.text(event, "error"), is_error=True)
        elif not is_known:
            transcript.unknown(kind, event)
        else:
            if form.get("observation") == "edit":
                form["extras"]["diff"] = _difference(seen)
            transcript.add(form, call)

    def _result(self, transcript: Transcript, call: str, seen: JsonObject) -> None:
        """The result of a tool that has no counterpart, or of one that failed."""
        code = seen.get("exit_code")
        picture = files.text(seen, "screenshot_data")
        pictures = [f"data:image/png;base64,{picture}"] if picture else pictures_of(seen.get("content"))
        transcript.result(
            call,
            text_of(seen.get("content")) or files.text(seen, "output"),
            exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
            diff=_difference(seen),
            pictures=pictures,
            is_error=seen.get("is_error") is True,
        )


def _with_thoughts(events: list[tuple[str, JsonObject]]) -> Iterator[tuple[str, JsonObject]]:
    """The events, with an event of its own for what the model thought before an action or a message."""
    for name, event in events:
        message = files.inner(event, "llm_message") if event.get("kind") == "MessageEvent" else event
        thought = files.text(message, "reasoning_content") or "\n".join(
            text for block in files.items(message, "thinking_blocks") if (text := files.text(block, "thinking"))
        )
        if thought.strip():
            think = {"kind": "ThinkAction", "thought": thought}
            place = {key: event.get(key) for key in ("timestamp", "source")}
            yield name, {"kind": "ActionEvent", "id": f"{_THOUGHT}{event.get('id')}", **place, "action": think}
        yield name, event if isinstance(event.get("kind"), str) else {**event, "kind": "event"}


def _moved(form: JsonObject, places: list[int]) -> JsonObject:
    """The form with references to places in the transcript instead of places in the list of events."""
    if isinstance(cause := form.get("cause"), int):
        form["cause"] = places[cause]
        if places[cause] >= places[-1]:
            del form["cause"]
    if form.get("action") == "condensation":
        forgotten = form["args"]["forgotten_event_ids"]
        form["args"]["forgotten_event_ids"] = [places[place] for place in forgotten if place < len(places) - 1]
    return form


def _difference(seen: JsonObject) -> str | None:
    """The diff of an edit: of its old and new content, or of each file that a patch changed."""
    changes = files.inner(seen, "commit", "changes") or {
        files.text(seen, "path") or files.text(seen, "file_path"): seen
    }
    made: list[str] = []
    for path, change in changes.items():
        before, after = (files.inner(change).get(key) for key in ("old_content", "new_content"))
        if isinstance(before, str) or isinstance(after, str):
            before, after = (text if isinstance(text, str) else "" for text in (before, after))
            made.append(difference(before, after, path) or "")
    return "\n".join(filter(None, made)) or None


def _usages(state: Any) -> dict[str, Usage]:
    """The usage of each model call, by the id of its answer. Costs are in a list of their own, in the same order."""
    found: dict[str, Usage] = {}
    for metrics in files.inner(state, "stats", "usage_to_metrics").values():
        used, costs = files.items(metrics, "token_usages"), files.items(metrics, "costs")
        for place, each in enumerate(used):
            cost = files.dollars(costs[place], "cost") if len(costs) == len(used) else None
            found[files.text(each, "response_id")] = Usage(
                files.text(each, "model"),
                files.number(each, "prompt_tokens"),
                files.number(each, "completion_tokens"),
                files.number(each, "cache_read_tokens"),
                files.number(each, "cache_write_tokens"),
                cost,
            )
    return found


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


def _prompt(event: JsonObject) -> str:
    is_prompt = files.text(event, "source") == "user"
    return first_line(text_of(files.inner(event, "llm_message").get("content"))) if is_prompt else ""
