"""The files that other programs read, made from the ledger: results.jsonl, predictions.jsonl, summary.md.

`predictions.jsonl` has the form of SWE-bench: `instance_id`, `model_name_or_path`, `model_patch`. Each file is complete
or absent. Blocks.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from core.batch.attempt_runner import KEPT, PATCH
from core.batch.ledger import AttemptState, TaskRow, TaskState

RESULTS, PREDICTIONS, SUMMARY = "results.jsonl", "predictions.jsonl", "summary.md"


def write_results(rows: Sequence[TaskRow], folder: Path, model: str) -> None:
    """Write all files. `model` is that of tasks without one of their own. Raises OSError."""
    _write(folder / RESULTS, (f"{json.dumps(record(row), ensure_ascii=False)}\n" for row in rows))
    with_patches = [row for row in rows if row.task.repo and row.ended is not None]
    if with_patches:
        _write(folder / PREDICTIONS, (f"{json.dumps(_prediction(row, folder, model))}\n" for row in with_patches))
    _write(folder / SUMMARY, [summary(rows)])
    for row in rows:
        _link(row, folder)


def record(row: TaskRow) -> dict[str, Any]:
    """One line of results.jsonl."""
    ended = row.ended
    return {
        "id": row.task.id,
        "state": row.state.value,
        "attempt": row.attempt,
        "outcome": ended.state.value if ended is not None else None,
        "reason": ended.reason if ended is not None else "",
        "conversation_id": ended.conversation if ended is not None else "",
        "rewards": list(ended.rewards) if ended is not None else [],
        "cost": ended.cost if ended is not None else None,
        "prompt_tokens": ended.tokens_in if ended is not None else 0,
        "completion_tokens": ended.tokens_out if ended is not None else 0,
        "seconds": round(row.seconds, 3),
        "worker": row.worker,
    }


def summary(rows: Sequence[TaskRow]) -> str:
    """The batch as Markdown: how many tasks ended how, and a table of those that did not succeed."""
    states = Counter(row.state for row in rows)
    cost = sum(row.ended.cost or 0.0 for row in rows if row.ended is not None)
    lines = ["# Batch", "", f"{len(rows)} tasks, ${cost:,.4f} for their newest attempts.", "", "| state | tasks |"]
    lines += ["|---|---|", *(f"| {state.value} | {states[state]} |" for state in TaskState if states[state])]
    failed = [row for row in rows if row.state is TaskState.FAILED and row.ended is not None]
    if failed:
        lines += ["", "| failed task | attempt | how | why |", "|---|---|---|---|"]
    for row in failed:
        how = row.ended.state if row.ended is not None else AttemptState.ERROR
        why = " ".join((row.ended.reason if row.ended is not None else "").split()).replace("|", "\\|")
        lines.append(f"| {row.task.id} | {row.attempt} | {how.value} | {why[:300]} |")
    return "\n".join([*lines, ""])


def _prediction(row: TaskRow, folder: Path, model: str) -> dict[str, str]:
    try:
        text = _attempt_folder(row, folder).joinpath(PATCH).read_text("utf-8", "replace")
    except OSError:  # the attempt ended before it had one
        text = ""
    return {"instance_id": row.task.id, "model_name_or_path": row.task.model or model, "model_patch": text}


def _link(row: TaskRow, folder: Path) -> None:
    """Name the files of the newest attempt in the task's folder."""
    attempt = _attempt_folder(row, folder)
    for name in (PATCH, *KEPT):
        link = attempt.parent / name
        if not row.attempt or not (attempt / name).is_file():
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(Path(attempt.name) / name)


def _attempt_folder(row: TaskRow, folder: Path) -> Path:
    return folder / row.task.id / f"attempt-{row.attempt}"


def _write(path: Path, lines: Iterable[str]) -> None:
    """Replace a file; only one line at a time is in memory, because a patch may be large."""
    half = path.with_name(f".{path.name}.half")
    with half.open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(lines)
    os.replace(half, path)
