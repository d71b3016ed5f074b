"""`handloom doctor --repair`: checks stored data and repairs it.

The findings are printed for each file before anything is changed; then it asks on a terminal, or `--yes` confirms. A
file that only the user can correct, such as settings, is reported and not changed. `--index` always rebuilds the search
index.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from core.environment import home_folder
from core.errors import ExitStatus, StoreError
from core.store.event_store import EventStore
from core.store.repair import Damage, Part, RepairResult, database_path, find_damage, repair
from tui.cli.output import can_ask, is_confirmed, say
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize

NAMED = 20
"""The most ranges of lost events in the text output; `--json` has them all."""
Found = Mapping[Path, Sequence[str]]
"""The problems of each file; none if it is intact."""


async def run(options: argparse.Namespace) -> int:
    """Check, ask and repair. Returns 1 if damage remains. Raises HandloomError."""
    home = home_folder(os.environ)
    path = database_path(home)
    try:
        damages = find_damage(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}. Make it readable.") from error
    if options.index and not damages and path.exists():
        damages = [Damage(Part.INDEX, _("the search index will be rebuilt"))]
    found: Found = {path: [damage.what for damage in damages], **own_files(home)}
    if not options.json:
        _print_findings(found)
    wanted = bool(damages) and (options.yes or (not options.json and _is_sure()))
    repaired = repair(home, damages, datetime.now()) if wanted else None
    indexed = await _index(home) if repaired is not None else None
    is_whole = not any(each for file, each in found.items() if file != path or repaired is None)
    if options.json:
        say(json.dumps(_as_dict(found, repaired, indexed, is_whole)))
    else:
        _print_result(damages, repaired)
    return ExitStatus.FINISHED if is_whole else ExitStatus.ERROR


async def _index(home: Path) -> int:
    """Rebuild the search index. Returns the number of its events."""
    async with EventStore(home) as store:
        await store.index()
        return sum(info.event_count for info in await store.conversations(limit=2**31))


def own_files(home: Path) -> dict[Path, list[str]]:
    """The small files of a home, with the problems of each."""
    found: dict[Path, list[str]] = {}
    for pattern in ("*.toml", "*.json", "marks/*.json"):
        for file in sorted(home.glob(pattern)):
            try:
                text = file.read_text("utf-8")
                found[file] = []
                (tomllib.loads if file.suffix == ".toml" else json.loads)(text)
            except (OSError, ValueError, RecursionError) as error:
                found[file] = [str(error)]
    return found


def _print_findings(found: Found) -> None:
    for file, damages in found.items():
        say(sanitize(f"{file}: " + (_("is intact") if not damages else _("is damaged"))))
        for what in damages:
            say(sanitize(f"  {' '.join(what.split())}"))


def _is_sure() -> bool:
    """Ask for confirmation on the terminal; False without a terminal."""
    return can_ask() and is_confirmed(_("Repair it? The damaged files are kept unchanged."))


def _print_result(damages: Sequence[Damage], repaired: RepairResult | None) -> None:
    if repaired is None:
        if damages:
            say(_("Nothing was changed. Repair it with: handloom doctor --repair --yes"))
        return
    saved = repaired.recovered
    if saved is not None:
        events = counted(saved.events, "{n} event", "{n} events")
        conversations = counted(saved.conversations, "{n} conversation", "{n} conversations")
        say(_("Recovered {events} in {conversations}.").format(events=events, conversations=conversations))
        for lost in saved.lost[:NAMED]:
            what = _("Lost: events {first} to {last} of conversation {id}.")
            say(what.format(first=lost.first, last=lost.last, id=lost.conversation_id))
        if (more := len(saved.lost) - NAMED) > 0:
            say(_("And {n} more ranges; --json lists all of them.").format(n=more))
        if not saved.lost:
            say(_("No events were lost."))
    if repaired.saved_as is not None:
        say(sanitize(_("The damaged database was saved as {file}").format(file=repaired.saved_as)))
    say(_("Repaired. The search index is up to date."))


def _as_dict(found: Found, repaired: RepairResult | None, indexed: int | None, is_whole: bool) -> dict[str, Any]:
    """The result for `--json`. Fields are added, and never changed."""
    saved = repaired.recovered if repaired is not None else None
    return {
        "ok": is_whole,
        "mended": repaired is not None,
        "files": [{"file": str(file), "found": list(damages)} for file, damages in found.items()],
        "kept": str(repaired.saved_as) if repaired is not None and repaired.saved_as is not None else None,
        "conversations": saved.conversations if saved is not None else None,
        "events": saved.events if saved is not None else None,
        "lost": [asdict(lost) for lost in saved.lost] if saved is not None else [],
        "indexed": indexed,
    }
