"""The tasks of a batch, read from a file: JSON lines, CSV, or a folder of Markdown files.

A line has `id` and `task`, and optionally a repository or a folder to work in. Records of SWE-bench are accepted: they
have other names for some fields, and fields that are for their own evaluation, which are ignored. Blocks.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from core.errors import UsageError

MAX_BYTES = 512 * 1024 * 1024
"""The largest file of tasks."""
MAX_TEXT_CHARS = 1_000_000
"""The longest task: more fits no model."""
MOST = 1e15
"""The largest number of a limit or need."""
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]{0,199}")
_ENVIRONMENT = re.compile(r"browsergym/[A-Za-z0-9_.-]{1,120}")
SWE_BENCH = {"instance_id": "id", "problem_statement": "task", "base_commit": "commit"}
"""Fields of SWE-bench's records, and what they are called here. A record with the first of them is one of its own."""
RESERVED = frozenset({"results.jsonl", "predictions.jsonl", "summary.md"})
"""Names in the folder of a batch, besides those that begin with `batch.`."""
FORMS = "Give a .jsonl or .csv file, or a folder of .md files."


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One task. `id` is unique in its batch, and a safe name for a folder."""

    id: str
    task: str = ""
    """What the agent is told; empty for the goal of an environment."""
    repo: str = ""
    """The repository that is cloned for each attempt, as `handloom --repo` takes it."""
    commit: str = ""
    """The commit at which the agent begins; empty for the newest one."""
    workspace: str = ""
    """A folder that is copied for each attempt."""
    model: str = ""
    """Empty for the model of the batch."""
    agent: str = ""
    """Empty for the agent of the batch."""
    check: str = ""
    """A command that runs in the sandbox after the agent has finished; its exit status decides."""
    environment: str = ""
    """An environment of BrowserGym, such as browsergym/miniwob.click-test; its rewards decide."""
    seed: str = ""
    """The seed of the environment; empty for 0."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Limits instead of those of the batch, by the names of LIMITS."""
    needs: Mapping[str, float] = field(default_factory=dict)
    """What a cluster reserves for an attempt, by the names of NEEDS."""

    def to_json(self) -> str:
        """One line of JSON with the fields that are set."""
        return json.dumps({name: value for name, value in asdict(self).items() if value}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> BatchTask:
        """The inverse of `to_json`."""
        return cls(**json.loads(text))


_FIELDS = frozenset(field.name for field in fields(BatchTask))
LIMITS = {"max_iterations": int, "max_tokens": int, "max_budget": float, "max_seconds": float}
"""The limits of a task, as in the settings of agents."""
NEEDS = {"cpus": float, "memory_gb": float}
_NUMBERS: Mapping[str, Mapping[str, type[int] | type[float]]] = {"limits": LIMITS, "needs": NEEDS}


def read_tasks(path: Path) -> list[BatchTask]:
    """Read all tasks, in order. Raises UsageError, which names the line and says what is wrong."""
    try:
        if path.is_dir():
            records = _of_folder(path)
        elif path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES // 1024**2} MB. Split it into several batches.")
        elif path.suffix in (".jsonl", ".ndjson"):
            records = _of_lines(path)
        elif path.suffix == ".csv":
            records = _of_csv(path)
        else:
            raise UsageError(f"{path.name} is no list of tasks that Handloom knows. {FORMS}")
        found: dict[str, BatchTask] = {}
        for where, record in records:
            task = _task(where, record, path.parent if path.is_file() else path)
            if task.id in found:
                raise UsageError(f"{where}: the id {task.id} occurs twice. Each task needs its own.")
            found[task.id] = task
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text. Convert it, then try again.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not found:
        raise UsageError(f"{path} has no tasks. {FORMS}")
    return list(found.values())


def digest(tasks: list[BatchTask]) -> str:
    """A hash that changes with any task, and not with the form of the file."""
    text = "\n".join(task.to_json() for task in tasks)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_Records = Iterator[tuple[str, Mapping[str, Any]]]
"""Where each record is, for messages, and its fields."""


def _of_lines(path: Path) -> _Records:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{path.name}, line {number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{where} is not JSON: {error}.") from error
            if not isinstance(record, dict):
                raise UsageError(f"{where} is not a JSON object with the fields id and task.")
            yield where, record


def _of_csv(path: Path) -> _Records:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        try:
            for row in (reader := csv.DictReader(lines)):
                where = f"{path.name}, line {reader.line_num}"
                if None in row:
                    raise UsageError(f"{where} has more values than the first line has names.")
                yield where, {name: value for name, value in row.items() if value}
        except csv.Error as error:
            raise UsageError(f"{path.name}, line {reader.line_num} is not CSV: {error}.") from error


def _of_folder(path: Path) -> _Records:
    for file in sorted(path.glob("*.md")):
        yield file.name, {"id": file.stem, "task": file.read_text("utf-8-sig")}


def _task(where: str, record: Mapping[str, Any], folder: Path) -> BatchTask:
    """Make a task of one record. Raises UsageError."""
    if "instance_id" in record:
        record = {SWE_BENCH.get(name, name): value for name, value in record.items()}
        record = {name: value for name, value in record.items() if name in _FIELDS and value is not None}
    elif unknown := [str(name) for name in record if name not in _FIELDS]:
        raise UsageError(
            f"{where}: there is no field {unknown[0][:60]!r}. The fields are {', '.join(sorted(_FIELDS))}."
        )
    values: dict[str, Any] = {"id": "", "task": ""}
    for name, value in record.items():
        if name in _NUMBERS:
            values[name] = _numbers(f"{where}: {name}", value, _NUMBERS[name])
        elif isinstance(value, str):
            values[name] = value.strip()
        else:
            raise UsageError(f"{where}: {name} must be text.")
    task = BatchTask(**values)
    if not _ID.fullmatch(task.id):
        raise UsageError(f"{where}: the id {task.id[:60]!r} must be 1 to 128 letters, digits, dots, - and _.")
    if task.id.lower() in RESERVED or task.id.lower().startswith("batch."):
        raise UsageError(f"{where}: the id {task.id} is the name of a file of the batch. Use another one.")
    if (not task.task and not task.environment) or len(task.task) > MAX_TEXT_CHARS:
        raise UsageError(f"{where}: task must have 1 to {MAX_TEXT_CHARS:,} characters.")
    if task.environment and not _ENVIRONMENT.fullmatch(task.environment):
        raise UsageError(f"{where}: environment must be one of BrowserGym, such as browsergym/miniwob.click-test.")
    if task.seed and not (task.environment and task.seed.isdecimal() and task.seed.isascii()):
        raise UsageError(f"{where}: seed needs an environment, and is a whole number in quotes.")
    if task.repo and task.workspace:
        raise UsageError(f"{where}: repo and workspace cannot be combined.")
    if task.commit and not (task.repo and _COMMIT.fullmatch(task.commit) and ".." not in task.commit):
        raise UsageError(f"{where}: commit needs a repo, and names a commit, tag or branch.")
    if task.workspace:
        task = BatchTask(**{**asdict(task), "workspace": str((folder / Path(task.workspace).expanduser()).resolve())})
    return task


def _numbers(where: str, value: object, known: Mapping[str, type[int] | type[float]]) -> dict[str, float]:
    """Named numbers above zero: an object of JSON, or its text in a CSV file. Raises UsageError."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if not isinstance(value, dict) or not known.keys() >= value.keys():
        raise UsageError(f'{where} must be an object with numbers, such as {{"{next(iter(known))}": 4}}. It may have '
                         f"{', '.join(known)}.")  # fmt: skip
    for name, number in value.items():
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < MOST
        if not is_number or (known[name] is int and number != int(number)):
            raise UsageError(f"{where}: {name} must be a number above 0.")
    return {name: known[name](number) for name, number in value.items()}
