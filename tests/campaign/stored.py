"""Reads a database without the product's code, and checks the invariants of every database."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.events import Action
from core.store.database import sqlite3
from core.store.event_rows import unpack
from tests.campaign.trial import check


@dataclass(frozen=True)
class Row:
    """One stored event."""

    id: int
    lease: int
    body: str | bytes

    @property
    def event(self) -> dict[str, Any]:
        """The stored form, which leaves out what follows from the rest."""
        event: dict[str, Any] = json.loads(unpack(self.body))
        return event


def read(home: Path) -> dict[str, list[Row]]:
    """The events of every conversation by id; none without a database. Checks the integrity of the file."""
    path = home / "handloom.db"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        verdict = connection.execute("PRAGMA integrity_check").fetchall()
        check([tuple(row) for row in verdict] == [("ok",)], f"the database is damaged: {verdict}")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            return {}  # killed before the schema was there
        found: dict[str, list[Row]] = {row[0]: [] for row in connection.execute("SELECT id FROM conversations")}
        events = "SELECT c.id, e.id, e.lease, e.body FROM events e JOIN conversations c ON c.key = e.conversation"
        for conversation, *row in connection.execute(f"{events} ORDER BY c.key, e.id"):
            found[conversation].append(Row(*row))
    for conversation, rows in found.items():
        check_ids(conversation, rows)
    return found


def check_ids(conversation: str, rows: list[Row]) -> None:
    """Ids start at 0 without gaps, and leases never decrease."""
    check([row.id for row in rows] == list(range(len(rows))), f"{conversation} has gaps: {[row.id for row in rows]}")
    leases = [row.lease for row in rows]
    check(leases == sorted(leases), f"{conversation} had two writers at once: {leases}")


def check_observations(events: list[dict[str, Any]], *, finished: bool) -> int:
    """No runnable action has two observations; in a finished conversation each has one. How many have none."""
    causes = [event["cause"] for event in events if "observation" in event and event.get("cause") is not None]
    waiting = 0
    for event in events:
        if "action" not in event or not Action.kinds[event["action"]].runnable:
            continue
        count = causes.count(event["id"])
        check(count <= 1, f"action {event['id']} has {count} observations")
        check(count == 1 or not finished, f"action {event['id']} has no observation")
        waiting += count == 0
    return waiting


def check_printed(printed: list[str], events: list[dict[str, Any]]) -> None:
    """Each printed line is an event of the export, the same value to the last byte."""
    for line in printed:
        event = json.loads(line)
        check(event["id"] < len(events), f"event {event['id']} was printed and is lost")
        same = json.dumps(event) == json.dumps(events[event["id"]])
        check(same, f"event {event['id']} was printed as {line} and is {events[event['id']]}")
