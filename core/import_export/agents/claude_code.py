"""Sessions of Claude Code: one file with a JSON object on each line, which form a tree by `parentUuid`.

    <root>/projects/<folder>/<session>.jsonl                              a session
    <root>/projects/<folder>/<session>/subagents/**/agent-<id>.jsonl      its sub-agents, with agent-<id>.meta.json
    <root>/projects/<folder>/<session>/tool-results/<name>                outputs that were too large for the session
    <root>/settings.json                                                  after how many days sessions are deleted

The root is ~/.claude. Each block of an answer is a line of its own with the same `message.id` and the same usage. The
format has no version and no description; what is here was seen in files of Claude Code 1.0.80, 2.1.197 and 2.1.330, or
is what other readers of these files do.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from core.import_export.agents import files
from core.import_export.agents.claude_code_records import REQUESTS, Facts, JsonObject, Record, Writer
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Branch, Transcript, Usage, as_time, first_line
from core.import_export.agents.tree import NO_PARENT, Tree, merged
from core.import_export.bounded_json import Fault

NAME = "claude-code"
KEPT_DAYS = 30
"""How long Claude Code keeps sessions if its settings do not say."""
MAX_BRANCHES = 50
MAX_BRANCH_RECORDS = 300_000
"""In all branches together: each has the whole way from the beginning."""
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
"""Of all outputs of one session that are in files of their own."""
MAX_SUB_AGENTS = 10_000
"""Descriptions of sub-agents that are read for one session, together not longer than its outputs."""
_SMALL_BYTES = 1 << 20
"""Settings and descriptions are not longer."""
_HEAD_RECORDS = 20
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "agent-name": "agentName", "summary": "summary"}
"""The records with a title: first the one that the user gave, last the oldest form."""
_KNOWN = {
    *_TITLES, "user", "assistant", "system", "attachment", "queue-operation", "file-history-snapshot", "last-prompt",
    "pr-link", "worktree-state", "relocated", "progress", "mode", "permission-mode", "bridge-session", "agent-setting",
    "frame-link", "started", "result", "tag", "atis-latch", "cost-state", "tools-used", *REQUESTS,
}  # fmt: skip
_SAVED_IN = re.compile(r"saved to: (.{1,4096})")
_PERSISTED = "<persisted-output>"
_AGENT = "agent-"


def discover(places: Places) -> Iterator[AgentSession]:
    """Every session and sub-agent, the newest first; of two files with the same id, the one that was changed last."""
    found: dict[str, tuple[Path, files.FoundFile]] = {}
    for root in _roots(places):
        for file in files.walk(root / "projects", ".jsonl"):
            if (other := found.get(file.path.stem)) is None or other[1].changed_ns < file.changed_ns:
                found[file.path.stem] = root, file
    days = {root: _kept_days(root) for root in _roots(places)}
    for root, file in sorted(found.values(), key=lambda each: each[1].changed_ns, reverse=True):
        session = places.unchanged(file.path, file.size, file.changed_ns) or _session(root, file)
        if session is not None:
            deleted_at = _deleted_at(file, days[root])  # a change of the settings does not change the file
            yield session if session.deleted_at == deleted_at else replace(session, deleted_at=deleted_at)


def read(session: AgentSession) -> Transcript:
    """The branch that the user ended with, with the others as branches of the transcript."""
    return _Session(session).transcript()


def _roots(places: Places) -> list[Path]:
    named = [Path(name) for name in places.environ.get("CLAUDE_CONFIG_DIR", "").split(",") if name.startswith("/")]
    return named or [places.home / ".claude", places.config / "claude"]


def _small(root: Path, path: Path) -> JsonObject:
    """The object in a small file; empty if there is none."""
    try:
        with files.open_below(root, path) as file:
            return files.inner(files.read_json(file, _SMALL_BYTES))
    except (OSError, Fault):
        return {}


def _kept_days(root: Path) -> int:
    days = _small(root, root / "settings.json").get("cleanupPeriodDays")
    return days if isinstance(days, int) and not isinstance(days, bool) and days >= 0 else KEPT_DAYS


def _edges(root: Path, file: files.FoundFile) -> tuple[list[Record], list[Record]]:
    try:
        with files.open_below(root, file.path) as opened:
            head, tail = files.edges(opened)
    except OSError:
        return [], []
    return [Record(0, fields) for fields in head], [Record(0, fields) for fields in tail]


def _deleted_at(file: files.FoundFile, days: int) -> datetime | None:
    changed_at = as_time(file.changed_ns // 1_000_000)
    with suppress(OverflowError):
        return changed_at + timedelta(days=days) if changed_at else None
    return None


def _session(root: Path, file: files.FoundFile) -> AgentSession | None:
    """What the first and the last lines of a file say; None if it has no conversation."""
    head, tail = _edges(root, file)
    path, id = file.path, file.path.stem
    is_sub = id.startswith(_AGENT)
    if not is_sub and len(path.relative_to(root).parts) != 3:
        return None
    said = [record for record in (*head, *tail) if record.is_said]
    if not said and file.size <= 2 * files.EDGE_BYTES:
        return None
    times = [time for record in (*head, *tail) if (time := as_time(record.fields.get("timestamp")))]
    return AgentSession(
        agent=NAME,
        id=id,
        root=root,
        path=path,
        title=(is_sub and _description(root, path)) or _title(head, tail),
        folder=next((cwd for record in said if (cwd := files.text(record.fields, "cwd"))), ""),
        model=next((record.model for record in reversed(said) if record.model), ""),
        started_at=min(times, default=None),
        updated_at=max(times, default=as_time(file.changed_ns // 1_000_000)),
        size=file.size,
        changed_ns=file.changed_ns,
        parent_id=_parent_id(path, said),
        beginning="" if is_sub else next((id for record in head if (id := record.message_id)), ""),
        begun_at=_begun_at(head),
    )


def _description(root: Path, path: Path) -> str:
    """What the agent called the task of a sub-agent."""
    return first_line(files.text(_small(root, path.with_suffix(".meta.json")), "description"))


def _title(head: list[Record], tail: list[Record]) -> str:
    uuids = {record.uuid for record in (*head, *tail)}
    for kind in _TITLES:
        for record in reversed((*head, *tail)):
            if record.kind == kind and (title := _own_title(record, uuids)):
                return title
    titles = [first_line(record.prompt) for record in (*head, *tail)]
    titles += [first_line(files.text(record.fields, "lastPrompt")) for record in tail]
    titles.sort(key=lambda title: title.startswith("/"))  # commands such as /model say little
    return next(filter(None, titles), "")


def _own_title(record: Record, uuids: Container[str]) -> str:
    """The title in a record. A summary may be of another session: it counts if it names one of these records."""
    if record.kind == "summary" and files.text(record.fields, "leafUuid") not in uuids:
        return ""
    return first_line(files.text(record.fields, _TITLES[record.kind]))


def _parent_id(path: Path, said: list[Record]) -> str:
    """The session of a sub-agent, or the one of which it is a fork, if the records say it."""
    if folder := _session_folder(path):
        return folder.name
    named = ((files.inner(record.fields, "forkedFrom"), record.fields) for record in said)
    ids = [files.text(fork, "sessionId") or files.text(fields, "sessionId") for fork, fields in named]
    return next((id for id in ids[:1] if id != path.stem), "")


def _session_folder(path: Path) -> Path | None:
    """The folder of the session to which the file of a sub-agent belongs."""
    return next((folder.parent for folder in path.parents if folder.name == "subagents"), None)


def _begun_at(records: list[Record]) -> datetime | None:
    """When a file was begun: the program queues a prompt before it writes or copies the conversation."""
    queued = (record for record in records[:_HEAD_RECORDS] if record.kind == "queue-operation")
    times = (as_time(record.fields.get("timestamp")) for record in queued)
    return next((time for time in times if time), None)


class _Session:
    """All records of one session, in the order of its file."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.is_sub = session.path.stem.startswith(_AGENT)
        self.folder = _session_folder(session.path) or session.path.with_suffix("")
        """The folder of the session with its other files."""
        self.warnings: list[str] = []
        self.records = list(self._read())
        self.title = self._title()
        self.nodes = [place for place, record in enumerate(self.records) if record.uuid]
        """Those that are in the tree."""
        self.copied = self._copied()
        """How many records, from the first on, come from another session."""
        self.facts = self._facts()
        self.output_bytes = MAX_OUTPUT_BYTES

    def transcript(self) -> Transcript:
        """The live branch, with the others as its branches."""
        is_side = [not self.is_sub and record.fields.get("isSidechain") is True for record in self.records]
        main, side = ([place for place in self.nodes if is_side[place] is each] for each in (False, True))
        tree, side_tree = self._tree(main), self._tree(side)
        live = tree.with_results(tree.chain(self._leaf(main)))
        others = [place for place, record in enumerate(self.records) if not record.uuid]
        way = [main[node] for node in live]
        found = self._rendered(merged(way, others), self.title or self.session.title)
        found.warnings = self.warnings
        leaves = [(main, tree, leaf, "") for leaf in tree.other_leaves(live)]
        leaves += [(side, side_tree, leaf, "Sub-agent: ") for leaf in side_tree.other_leaves(())]
        inside, left = set(way), MAX_BRANCH_RECORDS
        for nodes, of_tree, leaf, prefix in leaves[-MAX_BRANCHES:] if not self.session.first_bytes else ():
            way = [nodes[node] for node in of_tree.with_results(of_tree.chain(leaf))]
            left -= len(way)
            if left < 0:
                break
            prompts = (self.records[place].prompt for place in way if place not in inside)
            title = next((title for prompt in prompts if (title := first_line(prefix + prompt)) != prefix), "")
            found.branches.append(Branch(title or "Another answer", self._rendered(way, title)))
        if len(found.branches) < len(leaves):
            found.warnings.append(f"Only {len(found.branches)} of {len(leaves)} other branches are shown.")
        return found

    # -- the file ------------------------------------------------------------------------------------------------------

    def _read(self) -> Iterator[Record]:
        bad, unknown = 0, set()
        with files.open_below(self.session.root, self.session.path) as file:
            for line in files.lines(file, self.session.first_bytes):
                if not isinstance(line.value, dict):
                    bad += line.wrong != "cut off"  # the last line of a session that runs
                    yield Record(line.number, {"wrong": line.wrong or "not an object", "value": line.value})
                    continue
                record = Record(line.number, line.value)
                if record.kind not in _KNOWN:
                    unknown.add(record.kind[:40] or "?")
                yield record
        if bad:
            self.warnings.append(f"Lines that cannot be read: {bad}.")
        if unknown:
            names = ", ".join(sorted(unknown)[:5])
            self.warnings.append(f"Records of kinds that this version does not know are in the event log: {names}.")

    def _title(self) -> str:
        """The last title of the kind that is trusted most."""
        uuids = {record.uuid for record in self.records}
        found = {
            record.kind: title
            for record in self.records
            if record.kind in _TITLES and (title := _own_title(record, uuids))
        }
        return next((found[kind] for kind in _TITLES if kind in found), "")

    def _facts(self) -> Facts:
        results: dict[str, JsonObject] = {}
        usages: dict[str, Usage] = {}
        told: dict[str, JsonObject] = {}
        for record in self.records:
            for block in record.results:
                results.setdefault(files.text(block, "tool_use_id"), files.inner(record.fields, "toolUseResult"))
            if (fields := record.usage_fields) and fields != told.get(record.answer):
                # the first lines of an answer may have been written before its end
                told[record.answer], usage, before = fields, record.usage, usages.get(record.answer)
                if before is None or before.completion < usage.completion:
                    usages[record.answer] = usage
        children = {call: _AGENT + agent for call, info in results.items() if (agent := files.text(info, "agentId"))}
        found, left = files.walk(self.folder / "subagents", ".meta.json", depth=4), MAX_OUTPUT_BYTES
        for file in islice(found, MAX_SUB_AGENTS):
            if (left := left - file.size) < 0:
                break
            if call := files.text(_small(self.session.root, file.path), "toolUseId"):
                children[call] = file.path.name.removesuffix(".meta.json")
        return Facts(results, usages, children, self._output)

    def _output(self, text: str, info: JsonObject) -> str:
        """The whole output of a tool, if it is in a file of its own; `text` has only its beginning."""
        if not text.startswith(_PERSISTED):
            return text
        named = _SAVED_IN.search(text[:8192])
        name = Path(files.text(info, "persistedOutputPath") or (named[1].strip() if named else "")).name
        try:
            with files.open_below(self.session.root, self.folder / "tool-results" / name) as file:
                data = file.read(self.output_bytes + 1)
        except (OSError, ValueError):
            return text
        if len(data) > self.output_bytes:
            return text
        self.output_bytes -= len(data)
        return data.decode("utf-8", "replace")

    def _copied(self) -> int:
        """A fork begins with the records of its origin: with their times, or all with the time of the copy."""
        own, begun = self.session.path.stem, _begun_at(self.records)
        has_own = any(self.records[place].fields.get("sessionId") == own for place in self.nodes)
        times = [as_time(self.records[place].fields.get("timestamp")) for place in self.nodes]
        first = (self.records[place].kind for place, time in zip(self.nodes, times, strict=True) if time == times[0])
        is_answered_at_once = "assistant" in first
        for place, time in zip(self.nodes, times, strict=True):
            fields = self.records[place].fields
            is_copy = "forkedFrom" in fields or bool(time and begun and time < begun)
            is_copy = is_copy or (time == times[0] and is_answered_at_once)
            if self.is_sub:
                is_copy = fields.get("isSidechain") is False
            elif has_own:
                is_copy = is_copy or files.text(fields, "sessionId") not in ("", own)
            if not is_copy:
                return place if place != self.nodes[0] else 0
        return 0

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _tree(self, places: list[int]) -> Tree:
        """The tree of these records. A parent comes earlier; if it is missing, it is the record before."""
        nodes: dict[str, int] = {}
        parents, turns, answers = [], [], {""}
        for node, place in enumerate(places):
            record = self.records[place]
            is_turn = record.is_boundary or record.is_typed or record.answer not in answers
            answers.add(record.answer)
            named = files.text(record.fields, "parentUuid") or files.text(record.fields, "logicalParentUuid")
            is_root = is_turn and not named and not record.is_boundary
            parents.append(NO_PARENT if is_root else nodes.get(named, node - 1))
            turns.append(is_turn)
            nodes[record.uuid] = node
        return Tree(parents, turns)

    def _leaf(self, places: list[int]) -> int:
        """The last record of the live branch: the one that the last line names, else the last one of all."""
        last = places[-1] if places else 0
        for record in reversed(self.records[last + 1 :]):
            if record.kind == "last-prompt" and (named := files.text(record.fields, "leafUuid")):
                found = (node for node in reversed(range(len(places))) if self.records[places[node]].uuid == named)
                return next(found, len(places) - 1)
        return len(places) - 1

    # -- the events ----------------------------------------------------------------------------------------------------

    def _rendered(self, places: list[int], title: str) -> Transcript:
        transcript = Transcript(NAME, title=title, folder=self.session.folder)
        writer = Writer(self.facts, transcript)
        for place in places:
            if self.copied and place == self.copied:
                transcript.unknown("fork", {"session": self.session.parent_id})
            writer.add(self.records[place], is_copy=place < self.copied)
        writer.end()
        return transcript
