"""What a reader of another agent's session makes: events in V0 form, in order, each with its place in the file.

Calls and results are paired by the agent's own call id, because parallel calls interleave and results come late or
never. A record that a reader does not know becomes an event of the kind `<agent>.<record>`, which the event log shows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from core.import_export.agents import tools

JsonObject = dict[str, Any]
MAX_DIFF_CHARS = 1_000_000
"""Above this, the difference of two texts is not computed."""
MAX_COMPARED, MAX_COMPARED_IN_ALL = 10_000_000, 50_000_000
"""Pairs of lines that may be compared for one edit, and for all of a session: the time grows with them."""
MAX_TITLE_CHARS = 200
_MS_FROM = 100_000_000_000
"""A number above this is a time in milliseconds, below it in seconds: both until the year 5138."""
_NAME_CHARS = 60
_NO_CALL: JsonObject = {"action": "call_tool_mcp", "args": {"name": ""}}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one model call. `prompt` includes what was read from and written to a cache."""

    model: str = ""
    prompt: int = 0
    completion: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    """US dollars; None if the file does not say."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Another end of the same session: the user went back and went on differently."""

    title: str
    transcript: Transcript


@dataclass
class Transcript:
    """The events of one session. Readers call the methods in the order of the session."""

    agent: str
    title: str = ""
    folder: str = ""
    model: str = ""
    commit: str = ""
    forms: list[JsonObject] = field(default_factory=list)
    """Events in V0 form; the id of each is its place."""
    branches: list[Branch] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Sentences for the user."""
    usage: Usage = field(default_factory=Usage)
    """The sum of all calls; its cost is None while no call had one."""
    foreign: set[int] = field(default_factory=set)
    """The events whose form was not made here, so that nobody knows whether it fits its kind."""
    _calls: dict[str, int] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)
    """The ids of calls that have a result."""
    _timestamp: str = ""
    _record: JsonObject = field(default_factory=dict)
    _counted: set[str] = field(default_factory=set)
    _left: int = MAX_COMPARED_IN_ALL

    # -- where it comes from -------------------------------------------------------------------------------------------

    def at(self, timestamp: Any, place: str | int = "", kind: str = "") -> None:
        """The time and the place of the record that comes next: a line, a row, or the name of a file.

        A time is an ISO text, or a number of seconds or milliseconds; one that is none keeps the time before.
        """
        self._timestamp = iso_time(timestamp) or self._timestamp
        self._record = {"agent": self.agent, "place": place, "kind": kind[:_NAME_CHARS]}

    # -- what was said -------------------------------------------------------------------------------------------------

    def user(self, text: str, pictures: Sequence[str] = ()) -> None:
        """What the user typed. `pictures` are `data:` URLs."""
        if text or pictures:
            self._action("message", "user", content=text, image_urls=list(pictures) or None)

    def says(self, text: str) -> None:
        """What the agent said to the user."""
        if text.strip():
            self._action("message", "agent", content=text, wait_for_response=False)

    def thinks(self, text: str) -> None:
        """What the model thought, or the provider's summary of it."""
        if text.strip():
            self._action("think", "agent", thought=text)

    # -- what was done -------------------------------------------------------------------------------------------------

    def call(self, id: str, name: str, arguments: Any, child: str = "", *, by_user: bool = False) -> bool:
        """A tool call. `arguments` are an object, JSON text, or plain text. `child` is the sub-agent's session.

        `by_user` says that the user ran it, not the model. A second call with the same id is left out, because logs are
        replayed into forks and side files, unless the first one has a result and was another call: some servers restart
        call ids with each answer. Returns whether it was taken.
        """
        if id in self._calls and id not in self._answered:
            return False
        kind, args = tools.action(name, arguments)
        if child and kind == "delegate":
            args["inputs"] = {**args.get("inputs", {}), "session": child}
        if id in self._calls:
            before = self.forms[self._calls[id]]
            if (before.get("action"), before.get("args")) == (kind, args):
                return False
        if id:
            self._calls[id] = len(self.forms)
            self._answered.discard(id)
        self._action(kind, "user" if by_user else "agent", **args)
        return True

    def result(
        self,
        id: str,
        text: str,
        *,
        exit_code: int | None = None,
        diff: str | None = None,
        before: str | None = None,
        after: str | None = None,
        pictures: Sequence[str] = (),
        is_error: bool = False,
        is_denied: bool = False,
    ) -> None:
        """The result of the call with this id: what its tool printed, and for an edit, what it changed.

        `before` and `after` are whole files. `is_denied` says that the user or a rule refused the call.
        """
        cause = self._calls.get(id)
        self._answered.add(id)
        call = self.forms[cause] if cause is not None else _NO_CALL
        args: JsonObject = call["args"]
        kind, extras = "error" if is_error else "success", JsonObject()
        match call["action"]:
            case _ if is_denied:
                kind = "user_rejected"
            case "run":
                code = int(is_error) or -1 if exit_code is None else exit_code
                kind, extras = "run", {"command": args["command"], "metadata": {"exit_code": code}}
            case "call_tool_mcp":
                named = {"name": args["name"], "arguments": args.get("arguments", {})}
                kind, extras = "mcp", {**named, "image_urls": list(pictures) or None, "is_error": is_error}
            case _ if is_error:
                pass
            case "edit":
                if diff is None:
                    diff = self._difference(args, before, after)
                existed = bool(before) if before is not None else args.get("command") != "create"
                changed = {"old_content": before, "new_content": after, "diff": diff, "impl_source": "oh_aci"}
                kind, extras = "edit", {"path": args["path"], "prev_exist": existed, **changed}
            case "read":
                kind, extras = "read", {"path": args["path"]}
            case "task_tracking":
                kind, extras = "task_tracking", {name: args[name] for name in ("command", "task_list")}
            case "delegate":
                kind, extras = "delegate", {"outputs": {"content": text}}
        self._observation(kind, text, cause, **extras)

    def has_call(self, id: str) -> bool:
        """Whether there was a call with this id."""
        return id in self._calls

    def action_of(self, id: str) -> str:
        """The kind of the action that the call with this id became; empty if there was none."""
        return str(self.forms[self._calls[id]].get("action")) if id in self._calls else ""

    # -- what happened around it ---------------------------------------------------------------------------------------

    def compacted(self, summary: str, kept_from: int | None = None) -> None:
        """The agent replaced its history, up to `kept_from` (default: everything so far), by a summary."""
        end = len(self.forms) if kept_from is None else kept_from
        forgotten: JsonObject = {"forgotten_event_ids": []}
        if end > 0:
            forgotten = {"forgotten_events_start_id": 0, "forgotten_events_end_id": end - 1}
        self._action("condensation", "agent", **forgotten, summary=summary, summary_offset=0)

    def error(self, text: str) -> None:
        """A failed model call, or an error of the agent itself."""
        self._observation("error", text, None)

    def stopped(self, reason: str = "") -> None:
        """The user interrupted the agent."""
        self._observation("agent_state_changed", "", None, agent_state="stopped", reason=reason)

    def unknown(self, kind: str, record: Any) -> None:
        """A record without a counterpart; kept whole and shown in the event log."""
        fields = record if isinstance(record, dict) else {"value": record}
        name = "".join(c for c in kind if c.isalnum() or c in "-_./")[:_NAME_CHARS] or "record"
        form: JsonObject = {"observation": f"{self.agent}.{name}", "content": "", "extras": {"record": fields}}
        self._add(form, "environment")

    def spent(self, usage: Usage, answer: str = "") -> None:
        """The usage of one model call, once for each `answer` id; the next actions carry the sum."""
        if answer:
            if answer in self._counted:
                return
            self._counted.add(answer)
        before = self.usage
        cost = before.cost
        if usage.cost is not None:
            cost = (cost or 0.0) + usage.cost
        self.usage = Usage(
            usage.model or before.model,
            before.prompt + usage.prompt,
            before.completion + usage.completion,
            before.cache_read + usage.cache_read,
            before.cache_write + usage.cache_write,
            cost,
        )
        self.model = self.model or usage.model

    def add(self, form: JsonObject, call: str = "") -> None:
        """An event that its agent or another module has in V0 form already. Its id, time and place are set here.

        `cause` and other references are ids of this transcript. `call` is the id of the tool call that it is.
        """
        if call and "action" in form:
            self._calls.setdefault(call, len(self.forms))
        source = form.get("source")
        if source == "agent" and "action" in form and self.usage != Usage():
            form = {**form, "llm_metrics": self._metrics()}
        form = {key: value for key, value in form.items() if key not in ("id", "timestamp", "source", "imported")}
        self.foreign.add(len(self.forms))
        self._add(form, source if source in ("agent", "user") else "environment")

    # -- inside --------------------------------------------------------------------------------------------------------

    def _action(self, kind: str, source: str, **args: Any) -> None:
        form: JsonObject = {"action": kind, "args": args}
        if source == "agent" and self.usage != Usage():
            form["llm_metrics"] = self._metrics()
        self._add(form, source)

    def _metrics(self) -> JsonObject:
        tokens = {
            "model": self.usage.model,
            "prompt_tokens": self.usage.prompt,
            "completion_tokens": self.usage.completion,
            "cache_read_tokens": self.usage.cache_read,
            "cache_write_tokens": self.usage.cache_write,
        }
        return {"accumulated_cost": self.usage.cost, "accumulated_token_usage": tokens}

    def _observation(self, kind: str, content: str, cause: int | None, **extras: Any) -> None:
        form: JsonObject = {"observation": kind, "content": content, "extras": extras}
        if cause is not None:
            form["cause"] = cause
        self._add(form, "environment" if kind == "agent_state_changed" else "agent")

    def _difference(self, args: JsonObject, before: str | None, after: str | None) -> str | None:
        """The diff of an edit: of the whole files if they are known, else of the texts that the call replaces.

        A call that has a patch instead of texts shows what the patch changes.
        """
        old, new = before, after
        if old is None or new is None:
            old, new = args.get("old_str"), args.get("new_str")
            if args.get("command") == "create":
                old, new = "", args.get("file_text")
        if old is None or new is None:
            return None if args.get("command") else tools.patch_diff(args.get("content") or "") or None
        found, compared = _difference(old, new, args["path"], min(MAX_COMPARED, self._left))
        self._left -= compared
        return found

    def _add(self, form: JsonObject, source: str) -> None:
        placed = {"id": len(self.forms), "timestamp": self._timestamp, "source": source, **form}
        if self._record:
            placed["imported"] = {"record": self._record}
        self.forms.append(placed)


def iso_time(value: Any) -> str:
    """An ISO time, or a number of seconds or milliseconds, as an ISO time in UTC; empty if it is none."""
    found = as_time(value)
    return "" if found is None else found.isoformat()


def local_time(value: Any) -> str:
    """As `iso_time`, but a time without a zone is one of this machine, as some agents write it."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return iso_time(value) if found is None or found.tzinfo else found.astimezone(UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def as_time(value: Any) -> datetime | None:
    """As `iso_time`, as a time; None if it is none."""
    try:
        if isinstance(value, str) and value:
            found = datetime.fromisoformat(value)
            if found.tzinfo is UTC:  # most are
                return found
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) >= _MS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def difference(before: str, after: str, path: str) -> str | None:
    """The unified diff of two texts; None if they are too long to compare, or equal."""
    return _difference(before, after, path, MAX_COMPARED)[0]


def _difference(before: str, after: str, path: str, most: int) -> tuple[str | None, int]:
    """As `difference`, and how many pairs of lines it may have compared.

    The diff is None if the texts are equal, too long, or have more than `most` pairs of lines to compare.
    """
    if len(before) + len(after) > MAX_DIFF_CHARS:
        return None, 0
    old, new = _lines(before), _lines(after)
    same = _same(old, new)
    same += _same(old[same:][::-1], new[same:][::-1])
    pairs = (len(old) - same) * (len(new) - same)
    if pairs > most:
        return None, 0
    return "\n".join(difflib.unified_diff(old, new, path, path, lineterm="")) or None, pairs


def _lines(text: str) -> list[str]:
    """The lines of a text. Unlike `splitlines`, only a line feed ends a line, and a changed line end is a change."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _same(old: list[str], new: list[str]) -> int:
    """How many lines at the beginning are the same."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))


def text_of(content: Any) -> str:
    """The text of a text, of a content block with `text`, or of a list of them. Anything else is empty."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = (
        block if isinstance(block, str) else block.get("text") for block in content if isinstance(block, str | Mapping)
    )
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def first_line(text: str) -> str:
    """The first line of a text that is not empty, as a title."""
    return next((line for each in text.lstrip()[: 4 * MAX_TITLE_CHARS].splitlines() if (line := each.strip())), "")[
        :MAX_TITLE_CHARS
    ]


def pictures_of(content: Any) -> list[str]:
    """The `data:` URLs of the pictures in a list of content blocks, as Anthropic and OpenAI write them."""
    return [url for block in content for url in _picture(block)] if isinstance(content, list) else []


def _picture(block: Any) -> Iterator[str]:
    if not isinstance(block, Mapping):
        return
    source, url = block.get("source"), block.get("image_url")
    if isinstance(source, Mapping) and isinstance(source.get("data"), str):
        yield f"data:{source.get('media_type') or 'image/png'};base64,{source['data']}"
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str) and url.startswith("data:image/"):
        yield url
