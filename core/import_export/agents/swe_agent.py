"""Trajectories of SWE-agent: one JSON file for each run, `trajectories/<user>/<run>/<instance>/<instance>.traj`.

Searched are the folder in SWE_AGENT_TRAJECTORY_DIR and known projects. `trajectory` has the steps; `history` has the
prompt, and the tool calls and thoughts of the same steps. `query` of a step repeats the history and is not looked at. A
run that was tried several times has the others in `attempts`. There are no exit codes, and no times but how long each
command took: these are counted back from when the file was changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.import_export.agents import files, runs
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Branch, Transcript, Usage, as_time, first_line, text_of
from core.import_export.bounded_json import Fault

NAME = "swe-agent"
JsonObject = dict[str, Any]

_SUFFIX = ".traj"
_EDITOR = "str_replace_editor"
_ISSUE = (("<pr_description>", "</pr_description>"), ("ISSUE:\n", "\n\nINSTRUCTIONS:"))
"""What is around the issue in the prompts of the settings that come with SWE-agent."""
_MAX_SECONDS = 30 * 86400.0
_PART = re.compile(
    r"""(?P<gap>\s+)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]++|\\.)*+)"|\\(?P<escaped>.)|(?P<plain>[^\s'"\\]+)""",
    re.DOTALL,
)
"""A part of a word of shell text, or the gap between two words."""
_ESCAPED = re.compile(r"""\\(["\\])""")
_VERSION = re.compile(r"(\d{1,4})\.")
_NEWEST = 1


def discover(places: Places) -> Iterator[AgentSession]:
    """The trajectories in the folder that the environment names, and in projects."""
    folder = places.variable("SWE_AGENT_TRAJECTORY_DIR", Path())
    found = ((folder, file) for file in files.walk(folder, _SUFFIX)) if folder.is_absolute() else ()
    seen: set[Path] = set()
    for root, file in (*found, *runs.in_projects(places, _SUFFIX)):
        if file.path in seen:
            continue
        seen.add(file.path)
        with suppress(OSError, Fault):
            if (session := _session(root, file)) is not None:
                yield session


def read(session: AgentSession) -> Transcript:
    """The whole run, and its other attempts as branches. Raises OSError and Fault."""
    with files.open_below(session.root, session.path) as file:
        run = files.read_json(file)
    attempts = [each for each in files.items(run, "attempts") if isinstance(each, dict)]
    if not files.items(run, "trajectory") and not files.items(run, "history"):
        if not attempts:
            raise Fault("it has no steps")
        run = attempts.pop()
    transcript = _transcript(session, run)
    for number, each in enumerate(attempts, 1):
        if each.get("trajectory") != run.get("trajectory") and files.items(each, "trajectory"):
            transcript.branches.append(Branch(f"Attempt {number}", _transcript(session, each)))
    return transcript


def _session(root: Path, file: files.FoundFile) -> AgentSession | None:
    with files.open_below(root, file.path) as opened:
        run = files.beginning(opened)
    steps = files.items(run, "trajectory") or files.items(run, "history") or files.items(run, "attempts")
    if not isinstance(run, dict) or not steps:
        return None
    queries = files.items(steps[0], "query") or files.items(steps[0], "messages") or files.items(run, "history")
    prompt = next((text_of(each.get("content")) for each in queries if _is_prompt(each)), "")
    name = file.path.name.removesuffix(_SUFFIX)
    return AgentSession(
        agent=NAME,
        id=files.path_id(file.path),
        root=root,
        path=file.path,
        title=first_line(_issue(prompt)) if prompt else first_line(name),
        folder=_folder(steps[0]),
        model=_model(run),
        updated_at=as_time(file.changed_ns / 1e9),
        size=file.size,
        changed_ns=file.changed_ns,
    )


def _transcript(session: AgentSession, run: JsonObject) -> Transcript:
    info = files.inner(run, "info")
    steps, history = files.items(run, "trajectory"), files.items(run, "history")
    transcript = Transcript(NAME, session.title, session.folder, _model(run))
    version = _VERSION.match(files.text(info, "swe_agent_version"))
    if version and int(version[1]) > _NEWEST:
        transcript.warnings.append(f"SWE-agent {version[1]} wrote the file, and is newer than this reader.")
    now = session.changed_ns / 1e9 - sum(map(_seconds, steps))
    transcript.at(now, "history")
    _begin(transcript, history)
    answers = [each for each in history if _is_answer(each)]
    if len(answers) != len(steps):
        answers = []
    stats = files.inner(info, "model_stats")
    for number, step in enumerate(steps):
        transcript.at(now, f"step {number}", "step")
        if number == len(steps) - 1:  # there are only sums
            transcript.spent(_usage(stats))
        _step(transcript, number, step, answers[number] if answers else {})
        now += _seconds(step)
    transcript.at(now, "info", "info")
    if not steps:
        for answer in answers or history:
            transcript.says(text_of(files.inner(answer).get("content")) if _is_answer(answer) else "")
    submission, status = info.get("submission"), files.text(info, "exit_status")
    transcript.says(submission if isinstance(submission, str) else "")
    if status and "submitted" not in status:
        transcript.error(f"The run ended with {status}.")
    transcript.unknown("info", info)
    return transcript


def _begin(transcript: Transcript, history: list[Any]) -> None:
    """What the model got before its first answer: demonstrations, and the prompt."""
    for number, message in enumerate(history):
        if _is_answer(message):
            break
        role = files.text(message, "role")
        transcript.at(None, f"history {number}", role)
        if _is_prompt(message):
            transcript.user(_issue(text_of(message.get("content"))))
        transcript.unknown("demonstration" if files.inner(message).get("is_demo") else role or "message", message)


def _step(transcript: Transcript, number: int, step: Any, answer: JsonObject) -> None:
    for block in files.items(answer, "thinking_blocks") or files.items(step, "thinking_blocks"):
        transcript.thinks(files.text(block, "thinking"))
    action, observation = files.text(step, "action").strip(), text_of(files.inner(step).get("observation"))
    transcript.says(files.text(step, "thought") or ("" if action else files.text(step, "response")))
    calls = files.items(answer, "tool_calls")
    call = files.inner(calls[0], "function") if len(calls) == 1 else {}
    name = files.text(call, "name")
    if name:
        transcript.call(f"step {number}", name, call.get("arguments"))
    elif action:
        transcript.call(f"step {number}", *_parsed(action))
    if name or action:
        transcript.result(f"step {number}", observation)
    elif observation:
        transcript.error(observation)


def _parsed(action: str) -> tuple[str, Any]:
    """The tool and the arguments of a step that is one line of shell text."""
    if action.startswith(f"{_EDITOR} "):
        with suppress(ValueError, IndexError):
            words = _words(action)
            fields: JsonObject = {"command": words[1], "path": words[2]}
            for option, value in zip(words[3::2], words[4::2], strict=False):
                fields[option.removeprefix("--")] = int(value) if option == "--insert_line" else value
            return _EDITOR, fields
        with suppress(IndexError):
            words = action.split(maxsplit=3)
            return _EDITOR, {"command": words[1], "path": words[2]}
    return "bash", {"command": action}


def _words(text: str) -> list[str]:
    """As `shlex.split`, which takes quadratic time for a long word. Raises ValueError if a quote is not closed."""
    words: list[str] = []
    parts: list[str] = []
    place = 0
    while place < len(text):
        if (part := _PART.match(text, place)) is None:
            raise ValueError("a quote is not closed")
        place = part.end()
        if part["gap"] is None:
            found = next(each for each in part.group("single", "double", "escaped", "plain") if each is not None)
            parts.append(found if part["double"] is None else _ESCAPED.sub(r"\1", found))
        elif parts:
            words.append("".join(parts))
            parts = []
    return [*words, "".join(parts)] if parts else words


def _is_answer(message: Any) -> bool:
    return files.text(message, "role") == "assistant" and not files.inner(message).get("is_demo")


def _is_prompt(message: Any) -> bool:
    return files.text(message, "role") == "user" and not files.inner(message).get("is_demo")


def _issue(prompt: str) -> str:
    """The issue in a prompt; the whole prompt if it has none that is marked."""
    for start, end in _ISSUE:
        _before, found, after = prompt.partition(start)
        if found and end in after:
            return after.partition(end)[0].strip()
    return prompt.strip()


def _folder(step: Any) -> str:
    state = files.inner(step).get("state")
    if isinstance(state, str):  # before version 1
        with suppress(ValueError):
            state = files.parse(state.encode("utf-8", "replace"))
    folder = files.text(state, "working_dir")
    return folder if folder.startswith("/") else ""


def _model(run: Any) -> str:
    """The model's name, which is in the settings of the run: an object, or JSON text."""
    config = files.inner(run).get("replay_config")
    if isinstance(config, str):
        with suppress(ValueError):
            config = files.parse(config.encode("utf-8", "replace"))
    return files.text(files.inner(config, "agent", "model"), "name") or files.text(
        files.inner(run, "info"), "model_name"
    )


def _usage(stats: JsonObject) -> Usage:
    return Usage(
        prompt=files.number(stats, "tokens_sent"),
        completion=files.number(stats, "tokens_received"),
        cost=files.dollars(stats, "instance_cost"),
    )


def _seconds(step: Any) -> float:
    found = files.dollars(step, "execution_time")
    return min(found, _MAX_SECONDS) if found is not None else 0.0
