"""Events of OpenHands as events of a transcript: of version 0, whose vocabulary is Handloom's, and of the SDK.

The SDK's events are a tree by `parent_id`; old ones name no parent and follow each other. Most are translated by
`core.import_export.sdk_import`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.import_export import sdk_import
from core.import_export.agents import files
from core.import_export.agents.transcript import (
    Branch,
    Transcript,
    Usage,
    difference,
    first_line,
    local_time,
    pictures_of,
    text_of,
)

JsonObject = dict[str, Any]

_ROOT = "__root__"
"""The parent of an event that begins a new tree."""
_NO_NODES = ("ConversationStateUpdateEvent", "ConversationErrorEvent")
"""Events that are written between the others and are nobody's parent."""
_MAX_BRANCHES = 20
_THOUGHT = "thought of "


# -- version 0 ---------------------------------------------------------------------------------------------------------


def read_v0(transcript: Transcript, events: list[tuple[str, JsonObject]]) -> None:
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


def read_sdk(
    transcript: Transcript, events: list[tuple[str, JsonObject]], state: Any, children: Mapping[str, str]
) -> None:
    """The events of the SDK: the live branch, and the others as branches of the transcript.

    `state` is the file `base_state.json`, and `children` are the sub-agents' conversations by their first prompts.
    """
    tree = _Tree.of([event for _name, event in events], files.text(state, "leaf_event_id"))
    reader = _SdkReader(_usages(state), children)
    reader.read(transcript, [events[place] for place in tree.branch(tree.leaf)])
    others = tree.other_leaves()
    for leaf in others[:_MAX_BRANCHES]:
        places, fork = tree.branch(leaf), tree.fork_of(leaf)
        branch = Transcript(transcript.agent, transcript.title, transcript.folder, transcript.model)
        reader.read(branch, [events[place] for place in places])
        prompts = (_prompt(events[place][1]) for place in places if place > fork)
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

    def __init__(self, usages: Mapping[str, Usage], children: Mapping[str, str]) -> None:
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


def _prompt(event: JsonObject) -> str:
    is_prompt = files.text(event, "source") == "user"
    return first_line(text_of(files.inner(event, "llm_message").get("content"))) if is_prompt else ""
