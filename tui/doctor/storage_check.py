"""Where conversations are kept: the settings' file, the database, the disk. Everything is read, and nothing is made.

A running Handloom is not disturbed: no lease is taken, and no lock of ours.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from core.errors import StoreError
from core.home import CONFIG
from core.store.integrity import refuse
from core.store.schema import VERSION
from core.store.sqlite import FIXED_VERSION, can_be_shared, remedy, sqlite3
from core.store.sqlite import version as sqlite_version
from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _

MB = 1024 * 1024
CHECKED_WITHIN_S = 1.0
STEPS_BETWEEN_LOOKS = 10_000
"""Of SQLite's virtual machine: some milliseconds."""
SCARCE_MB, TOO_LITTLE_MB = 1024, 64
SHARED_BY_MACHINES = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre"}
"""File systems on which a write-ahead log is not safe: its index is memory that one machine's processes share."""
KERNELS_OWN = {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs"}


def settings(patient: Patient) -> Finding:
    """Whether they can be read."""
    file = patient.home / CONFIG
    if patient.trouble:
        return Finding(Mark.MISSING, patient.trouble, _("Until then this report uses the default settings."))
    if not file.exists():
        return Finding(Mark.OK, _("default settings; {file} does not exist").format(file=file))
    return Finding(Mark.OK, str(file))


def database(patient: Patient) -> Finding:
    """Whether there can be one, whether ours can read the one that is there, and whether it is whole."""
    number = ".".join(map(str, sqlite_version()))
    file = patient.home / "handloom.db"
    try:
        refuse(file)
    except StoreError as error:
        return Finding(Mark.MISSING, str(error))
    if not file.exists():
        found = _("{file} does not exist yet; SQLite {version}").format(file=file, version=number)
    else:
        finding, found = _read(file, number)
        if finding is not None:
            return finding
    if not can_be_shared():
        advice = _(
            "Install the pysqlite3 package. Before SQLite {fixed}, only one Handloom "
            "process can use a home folder at a time."
        )
        return Finding(Mark.NOTE, found, advice.format(fixed=".".join(map(str, FIXED_VERSION))))
    return Finding(Mark.OK, found)


def _read(file: Path, number: str) -> tuple[Finding | None, str]:
    """What is wrong with the database, and what is to be said where nothing is."""
    try:
        version, count, whole = _looked_through(file)
    except sqlite3.Error as error:
        return Finding(Mark.MISSING, f"{file}: {error}", remedy(error)), ""
    if version > VERSION:
        found = _("{file} was written by a newer Handloom (schema {version})").format(file=file, version=version)
        return Finding(Mark.MISSING, found, _("Install the newer version, or set HANDLOOM_HOME to another folder.")), ""
    if whole not in ("ok", ""):
        found = _("{file} is damaged: {what}").format(file=file, what=whole)
        return Finding(Mark.MISSING, found, _("Recover what is readable with: handloom doctor --mend")), ""
    facts = _("{file}, schema {version}, conversations: {count}, SQLite {number}")
    said = facts.format(file=file, version=version, count=count, number=number)
    return None, said if whole else _("{facts}; too large for a quick integrity check").format(facts=said)


def _looked_through(file: Path) -> tuple[int, int, str]:
    """Version of the schema, number of conversations, and `ok` or what is wrong; empty where time ran out."""
    # Where nobody has it open there is no log, and without a log SQLite would have to make one to read.
    state = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(file))}?{state}", uri=True, timeout=0.5)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        has_tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'conversations'").fetchone()
        count = connection.execute("SELECT count(*) FROM conversations").fetchone()[0] if has_tables else 0
        ends_at = time.monotonic() + CHECKED_WITHIN_S
        connection.set_progress_handler(lambda: time.monotonic() > ends_at, STEPS_BETWEEN_LOOKS)
        try:
            (whole,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            whole = ""
    return version, count, whole


def disk(patient: Patient) -> Finding:
    """Whether the home can be written, on what, and how much is free."""
    home = patient.home
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    advice = _("Make {place} writable, or set HANDLOOM_HOME to another folder.").format(place=place)
    kind = _file_system(place)
    if not place.is_dir():
        return Finding(Mark.MISSING, _("{place} is not a folder").format(place=place), advice)
    if not os.access(place, os.W_OK | os.X_OK) or kind in KERNELS_OWN:
        return Finding(Mark.MISSING, _("{place} is not writable").format(place=place), advice)
    free_mb = shutil.disk_usage(place).free // MB
    found = _("{home}: {free} MB free on {kind}").format(home=home, free=f"{free_mb:,}", kind=kind)
    if kind in SHARED_BY_MACHINES:
        return Finding(
            Mark.NOTE, found, _("Set HANDLOOM_HOME to a folder on a local disk. This one is on a network file system.")
        )
    if free_mb < SCARCE_MB:
        return Finding(Mark.MISSING if free_mb < TOO_LITTLE_MB else Mark.NOTE, found, _("Free some disk space."))
    return Finding(Mark.OK, found)


def _file_system(place: Path) -> str:
    """The kind of file system under a folder, as the kernel names it; a question mark where it does not."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return "?"
    at, found = "", "?"
    for line in lines:
        before, _dash, after = line.partition(" - ")
        mounted = before.split()[4].replace("\\040", " ")
        if len(mounted) >= len(at) and place.resolve().is_relative_to(mounted):
            at, found = mounted, after.split()[0]
    return found
