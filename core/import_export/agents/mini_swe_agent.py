"""Runs of mini-swe-agent: one JSON file for each, `*.traj.json`, with the messages of the model's chat.

The last run of `mini` is `last_mini_run.traj.json` in its folder of settings, overwritten by the next. Other runs are
where `-o` put them: searched are the usual folders of known projects. Version 2 of the program keeps commands, exit
codes, costs and times in `extra` of each message; version 1 has only the texts, from which commands and exit codes are
taken. The prompt is a template around the task, so that only the task is shown as what the user typed. Seen: 2.4.6,
1.17.5.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.import_export.agents import files, runs
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage, as_time, first_line, text_of
from core.import_export.bounded_json import Fault

NAME = "mini-swe-agent"
_SUFFIX = ".traj.json"
_FORMATS = ("mini-swe-agent-1", "mini-swe-agent-1.1")
_FENCED = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\n(.*?)\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>(-?\d{1,10})</returncode>")
_BY_USER = re.compile(
    r"\A(?:Interrupted by user:|The user added a new task:"
    r"|Commands not executed\. The user rejected your commands with the following message:)\s*"
)
_TASK = re.compile(r"\{\{\s*task\s*\}\}")

JsonObject = dict[str, Any]


def discover(places: Places) -> Iterator[AgentSession]:
    """The last run of `mini`, and the runs in projects."""
    folder = places.config / NAME
    if places.platform == "darwin":
        folder = places.home / "Library/Application Support" / NAME
    folder = places.variable("MSWEA_GLOBAL_CONFIG_DIR", folder)
    found = ((folder, each) for each in files.walk(folder, _SUFFIX, depth=1))
    for root, file in (*found, *runs.in_projects(places, _SUFFIX)):
        with suppress(OSError, Fault):
            if (session := _session(root, file)) is not None:
                yield session


def read(session: AgentSession) -> Transcript:
    """The whole run. Raises OSError and Fault."""
    with files.open_below(session.root, session.path) as file:
        run = files.read_json(file)
    messages = run if isinstance(run, list) else files.items(run, "messages")
    if not messages:
        raise Fault("it has no messages")
    config = files.inner(run, "info", "config")
    transcript = Transcript(NAME, session.title, session.folder, files.text(files.inner(config, "model"), "model_name"))
    form = files.text(run, "trajectory_format")
    if form and form not in _FORMATS:
        transcript.warnings.append(f"The file has the format {form[:40]!r}, which is newer than this reader.")
    first = next((time for message in messages if as_time(time := _time(message))), session.changed_ns / 1e9)
    _Reader(transcript, files.inner(config, "agent"), first).read(messages)
    if transcript.usage.cost is None:  # version 1 has only the sum
        transcript.spent(Usage(cost=files.dollars(files.inner(run, "info", "model_stats"), "instance_cost")))
    return transcript


def _session(root: Path, file: files.FoundFile) -> AgentSession | None:
    with files.open_below(root, file.path) as opened:
        run = files.beginning(opened)
    info = files.inner(run, "info")
    messages = run if isinstance(run, list) else files.items(run, "messages")
    if not messages and not info:
        return None
    config = files.inner(info, "config")
    template = files.text(files.inner(config, "agent"), "instance_template")
    prompt = next((text_of(each.get("content")) for each in messages if _role(each) == "user"), "")
    started = next((time for each in messages if (time := as_time(_time(each)))), None)
    cwd = files.text(files.inner(config, "environment"), "cwd")
    name = file.path.name.removesuffix(_SUFFIX)
    return AgentSession(
        agent=NAME,
        id=name if name == "last_mini_run" else files.path_id(file.path),
        root=root,
        path=file.path,
        title=first_line(_task(prompt, template)) or first_line(name),
        folder=cwd if cwd.startswith("/") else "",
        model=files.text(files.inner(config, "model"), "model_name"),
        started_at=started,
        updated_at=as_time(file.changed_ns / 1e9),
        size=file.size,
        changed_ns=file.changed_ns,
        cost=files.dollars(files.inner(info, "model_stats"), "instance_cost"),
    )


class _Reader:
    """Makes the events of one run."""

    def __init__(self, transcript: Transcript, settings: JsonObject, first: Any) -> None:
        self.transcript, self.template = transcript, files.text(settings, "instance_template")
        self.correction = files.text(settings, "format_error_template").partition("{")[0].strip()
        """What version 1 answers to an answer without a command."""
        self.calls: deque[str] = deque()
        """The ids of the calls of the last answer, in order."""
        self.answered: set[str] = set()
        self.has_task = False
        transcript.at(first)

    def read(self, messages: list[Any]) -> None:
        for number, message in enumerate(messages):
            role = _role(message)
            extra = files.inner(message, "extra")
            self.transcript.at(_time(message), f"message {number}", role)
            text = text_of(message.get("content")) if isinstance(message, dict) else ""
            kind = files.text(extra, "interrupt_type")
            if role == "assistant" or (isinstance(message, dict) and "output" in message and "call_id" not in message):
                self._answer(message, extra, text, number)
            elif role in ("tool", "function_call_output"):
                self._result(message, extra, text or files.text(message, "output"))
            elif role == "exit":
                self._exit(message, extra, text)
            elif role == "user" and kind == "FormatError":
                self._malformed(extra, text)
            elif role == "user":
                self._user(message, extra, text, kind, number)
            else:
                self.transcript.unknown(role or "message", message)

    def _answer(self, message: JsonObject, extra: JsonObject, text: str, number: int) -> None:
        self._spent(extra)
        text = text or "\n".join(text_of(item.get("content")) for item in _outputs(message))
        self.transcript.thinks(files.text(message, "reasoning_content"))
        actions = files.items(extra, "actions")
        if not actions and not files.items(message, "tool_calls"):
            commands = _FENCED.findall(text)
            actions = [{"command": command} for command in commands if len(commands) == 1]  # two are not run
        run = {_command(action).strip() for action in actions}
        self.transcript.says(_FENCED.sub(lambda found: "" if found[1].strip() in run else found[0], text).strip())
        self._calls(actions, number)

    def _calls(self, actions: list[Any], number: int, *, by_user: bool = False) -> None:
        self.calls.clear()
        for place, action in enumerate(actions):
            id = files.text(action, "tool_call_id") or f"{number}.{place}"
            self.transcript.call(id, "bash", {"command": _command(action)}, by_user=by_user)
            self.calls.append(id)

    def _result(self, message: JsonObject, extra: JsonObject, text: str) -> None:
        id = files.text(message, "tool_call_id") or files.text(message, "call_id")
        if not self.transcript.has_call(id):
            id = self._next_call() or id
        self.answered.add(id)
        code = extra.get("returncode")
        if not isinstance(code, int) or isinstance(code, bool):
            code = int(found[1]) if (found := _CODE.search(text)) else None
        output = extra.get("raw_output")
        if not isinstance(output, str):
            output = _output(text)
        failure = files.text(extra, "exception_info")
        self.transcript.result(id, "\n".join(filter(None, (output, failure))), exit_code=code)

    def _next_call(self) -> str:
        """The first call of the last answer that has no result; empty if there is none."""
        while self.calls and self.calls[0] in self.answered:
            self.calls.popleft()
        return self.calls.popleft() if self.calls else ""

    def _user(self, message: JsonObject, extra: JsonObject, text: str, kind: str, number: int) -> None:
        if not self.has_task and not kind:
            self.has_task = True
            self.transcript.user(_task(text, self.template))
            if self.template:
                self.transcript.unknown("prompt", message)
        elif kind:
            if kind == "UserRejection":
                while id := self._next_call():
                    self.transcript.result(id, text, is_denied=True)
            elif kind == "UserInterruption":
                self.transcript.stopped("Interrupted by the user")
            said = _BY_USER.sub("", text)
            if said != text:
                self.transcript.user(said)
            else:
                self.transcript.unknown(kind, message)
        elif actions := files.items(extra, "actions"):  # a command that the user typed
            self.transcript.user(text)
            self._calls(actions, number, by_user=True)
        elif "returncode" in extra or (self.calls and self.calls[-1] not in self.answered):
            self._result(message, extra, text)
        elif self.correction and text.startswith(self.correction):
            self.transcript.error(text)
        elif _CODE.search(text):
            self.transcript.unknown("observation", message)
        else:
            self.transcript.user(text)

    def _malformed(self, extra: JsonObject, text: str) -> None:
        """An answer without a command, and what the model was told about it."""
        self._spent(extra)
        for choice in files.items(files.inner(extra, "response"), "choices"):
            self.transcript.says(text_of(files.inner(choice, "message").get("content")))
        self.transcript.error(text)

    def _exit(self, message: JsonObject, extra: JsonObject, text: str) -> None:
        status = files.text(extra, "exit_status")
        if status in ("Submitted", ""):
            self.transcript.says(files.text(extra, "submission") or text)
        elif failure := files.text(extra, "exception_str") or text:
            self.transcript.error(failure if failure == status else f"{status}: {failure}")
        self.transcript.unknown("exit", message)

    def _spent(self, extra: JsonObject) -> None:
        response = files.inner(extra, "response")
        usage = files.inner(response, "usage")
        cached = files.inner(usage, "prompt_tokens_details") or files.inner(usage, "input_tokens_details")
        found = Usage(
            files.text(response, "model") if not self.transcript.model else "",
            files.number(usage, "prompt_tokens") or files.number(usage, "input_tokens"),
            files.number(usage, "completion_tokens") or files.number(usage, "output_tokens"),
            files.number(cached, "cached_tokens"),
            files.number(usage, "cache_creation_input_tokens"),
            files.dollars(extra, "cost"),
        )
        if found != Usage():
            self.transcript.spent(found, files.text(response, "id"))


def _time(message: Any) -> Any:
    return files.inner(message, "extra").get("timestamp") or files.inner(message).get("timestamp")


def _role(message: Any) -> str:
    return files.text(message, "role") or files.text(message, "type")


def _command(action: Any) -> str:
    return action if isinstance(action, str) else files.text(action, "command")


def _output(text: str) -> str:
    """What a command printed, in the text that the model got."""
    _before, found, after = text.partition("<output>")
    return after.rpartition("</output>")[0].strip("\n") if found and "</output>" in after else text


def _outputs(message: JsonObject) -> list[JsonObject]:
    """The texts of an answer of OpenAI's newer interface."""
    found = files.items(message, "output")
    return [item for item in found if isinstance(item, dict) and item.get("type") == "message"]


def _task(prompt: str, template: str) -> str:
    """The task in a prompt that was made of a template; the whole prompt if the template does not fit."""
    before, found, after = _TASK.split(template)[0], _TASK.search(template), ""
    if found:
        after = re.split(r"\{[{%#]", template[found.end() :])[0].rstrip()
    if not found or not prompt.startswith(before):
        return prompt
    end = prompt.find(after, len(before)) if after else -1
    return prompt[len(before) : end if end >= 0 else None].strip()
