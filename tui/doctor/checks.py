"""The checks of `handloom doctor` that look at this machine, its terminal, and what is stored; see `sandbox_checks`.

To add a check, write a function that returns a `Finding` and add its row to the table in `report`. Each check runs in a
thread and is reported as unfinished after some seconds. No check changes this machine, starts a server, calls a model
or reads the value of a key. A running Handloom is not disturbed: no lease is taken, and no lock of ours.
"""

from __future__ import annotations

import os
import platform
import re
import select
import shutil
import stat
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version as version_of
from pathlib import Path
from urllib.parse import quote

from core.environment import CONFIG, inherited
from core.errors import ConfigurationError, HandloomError, StoreError
from core.llm.model_host_client import ModelHost
from core.llm.providers import key_variables_of
from core.llm.registry import create_llm, offers
from core.mcp.approvals import Approvals
from core.mcp.server_definitions import ServerSpec, of_project, of_user
from core.secrets.backends import wrong_mode
from core.secrets.vault import EVERYWHERE, INDEX, MODELS, VALUES, Vault
from core.settings.config import Settings
from core.settings.key_migration import keys_in
from core.store.database import FIXED_VERSION, VERSION, can_be_shared, check_can_open, remedy, sqlite3
from core.store.database import version as sqlite_version
from tui.commands import keyed
from tui.i18n import _
from tui.terminal_io import clipboard as clipboard_ways
from tui.terminal_io.escapes import QUERY_ABILITIES
from tui.terminal_io.glyphs import speaks_utf8
from tui.terminal_io.graphics.graphics_terminal import GraphicsTerminal, cell_size, outer_terminal
from tui.terminal_io.sanitizer import sanitize_line

PROGRAM_ANSWERS_IN_S = 1.5
"""Programs print their version in some milliseconds; a browser takes half a second."""
NAMES_CELLS = 200
MB = 1024 * 1024
DATABASE_CHECK_S = 1.0
SQLITE_STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock: some milliseconds."""
SCARCE_MB, TOO_LITTLE_MB = 1024, 64
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre"}
"""A write-ahead log is not safe on these, because processes on different machines do not share its index."""
KERNEL_FILE_SYSTEMS = {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs"}
TERMINAL_ANSWERS_IN_S = 0.2
"""Enough for a slow connection."""
SMALLEST = (80, 24)
_NUMBER = re.compile(r"\d+(\.\d+)+[a-z]?")
_DEVICE = "\x1b[c"
"""A question that every terminal answers."""
_LAST_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
_SYNCHRONIZED = re.compile(rb"\x1b\[\?2026;[1-4]\$y")
_KITTY = re.compile(rb"\x1b\[\?\d+u")
_ANSWERS = re.compile(r"\x1b[_P][^\x1b\a]*\x1b\\|\x1b\[[?>\d;]*[ct]")


class Mark(StrEnum):
    """The result of a check."""

    OK = "ok"
    NOTE = "note"
    """Handloom works, with less."""
    MISSING = "missing"
    """The chosen runtime needs something that is missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    mark: Mark
    found: str
    """A version, a path, a figure; or what is wrong."""
    advice: str = ""
    """The next step, in one sentence."""


def ok(found: str, advice: str = "") -> Finding:
    return Finding(Mark.OK, found, advice)


def note(found: str, advice: str = "") -> Finding:
    return Finding(Mark.NOTE, found, advice)


def missing(found: str, advice: str = "") -> Finding:
    return Finding(Mark.MISSING, found, advice)


@dataclass(frozen=True, slots=True)
class Machine:
    """What is checked: this process's environment, and the settings of its user."""

    environ: Mapping[str, str]
    home: Path
    """Handloom's home folder, which may not exist."""
    workspace: Path
    settings: Settings
    settings_error: str = ""
    """Why these are the default settings and not the user's; empty if they are the user's."""
    on_terminal: bool = False

    def needed_by(self, runtime: str) -> Mark:
        """The mark for something missing that only this runtime needs."""
        return Mark.MISSING if self.settings.runtime == runtime else Mark.NOTE


def first_line_of(*command: str, environ: Mapping[str, str] | None = None) -> str:
    """The first line that a program prints; empty if it fails or takes too long. Blocks."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROGRAM_ANSWERS_IN_S,
            check=False,
            env=environ,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout.decode("utf-8", "replace").splitlines() or [""])[0].strip()


def number_in(text: str) -> str:
    """The version number in a program's output, or an empty string."""
    found = _NUMBER.search(text)
    return found[0] if found else ""


# -- programs ----------------------------------------------------------------------------------------------------------


def version(machine: Machine) -> Finding:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return ok(f"{version_of('handloom')}, Python {platform.python_version()}, {system}")


def git(machine: Machine) -> Finding:
    return _program("git", "--version", machine, _("Install git to clone repositories."))


def ripgrep(machine: Machine) -> Finding:
    return _program("rg", "--version", machine, _("Install ripgrep for faster file search."))


def tmux(machine: Machine) -> Finding:
    return _program("tmux", "-V", machine, _("Install tmux to keep Handloom running when a connection breaks."))


def _program(name: str, option: str, machine: Machine, advice: str) -> Finding:
    path = shutil.which(name, path=machine.environ.get("PATH"))
    if path is None:
        return note(_("not installed"), advice)
    if not (line := first_line_of(path, option)):
        return note(_("{path} does not report its version").format(path=path), advice)
    return ok(f"{number_in(line) or line}, {path}")


# -- terminal ----------------------------------------------------------------------------------------------------------


def terminal(machine: Machine) -> Finding:
    """What the environment says about the terminal, and what it answers if it can be asked."""
    environ = machine.environ
    term = environ.get("TERM", "")
    if term in ("", "dumb"):
        return note(
            _("TERM is dumb or not set: the terminal cannot show a full screen"),
            _("Use: handloom --screen-reader, or handloom run TASK"),
        )
    columns, rows = shutil.get_terminal_size()
    facts = [term, _colours(machine), f"{columns}x{rows}"]
    if inside := next((name for name in ("TMUX", "STY") if environ.get(name)), ""):
        facts.append("tmux" if inside == "TMUX" else "screen")
    if clipboard_ways.is_remote(environ):
        facts.append("ssh")
    if machine.on_terminal:
        questions: list[str] = []
        pictures = GraphicsTerminal("auto", environ, questions.append, lambda: cell_size(sys.__stdin__))
        pictures.query()
        answer = _ask("".join(questions).removesuffix(_DEVICE) + QUERY_ABILITIES)
        for reply in _ANSWERS.findall(answer.decode("latin-1")):
            pictures.handle_reply(reply)
        if pictures.is_in_tmux:
            pictures.name_outer_terminal(outer_terminal(environ))
        facts += [_("synchronized output")] * bool(_SYNCHRONIZED.search(answer))
        facts += [_("kitty keyboard")] * bool(_KITTY.search(answer))
        facts += {"kitty": [_("kitty graphics")], "iterm2": [_("inline images")], "sixel": [_("sixel graphics")]}.get(
            pictures.method, []
        )
    found = ", ".join(facts)
    if not speaks_utf8(environ):
        return note(found, _("Only ASCII characters can be shown. Set LANG to a UTF-8 locale."))
    if machine.on_terminal and (columns < SMALLEST[0] or rows < SMALLEST[1]):
        return note(found, _("Enlarge the window to at least 80 columns and 24 rows."))
    return ok(found)


def _colours(machine: Machine) -> str:
    environ = machine.environ
    if environ.get("NO_COLOR"):
        return _("no colours (NO_COLOR)")
    if environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return _("{count} colours").format(count="16 M")
    return _("{count} colours").format(count="256" if "256" in environ.get("TERM", "") else "16")


def _ask(questions: str) -> bytes:
    """The terminal's answer to questions of which the last is _DEVICE; empty if another program has it. Blocks."""
    fd, answer = sys.stdin.fileno(), b""
    if os.tcgetpgrp(fd) != os.getpgrp():
        return answer
    before = termios.tcgetattr(fd)
    ends_at = time.monotonic() + TERMINAL_ANSWERS_IN_S
    try:
        tty.setcbreak(fd)
        os.write(sys.stdout.fileno(), questions.encode())
        while (left_s := ends_at - time.monotonic()) > 0 and not _LAST_ANSWER.search(answer):
            if select.select([fd], [], [], left_s)[0]:
                answer += os.read(fd, 1024)
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
    return answer


def clipboard(machine: Machine) -> Finding:
    environ = machine.environ
    tools = clipboard_ways.desktop_tools(environ, lambda name: shutil.which(name, path=environ.get("PATH")))
    if tools:
        return ok(tools[0].name)
    if environ.get("TERM", "") in ("", "dumb"):
        return note(_("not available"), _("Use a terminal that supports OSC 52."))
    if environ.get("WAYLAND_DISPLAY") or environ.get("DISPLAY"):
        advice = _("Install wl-clipboard or xclip, unless your terminal supports OSC 52.")
        return note(clipboard_ways.how([], True, environ), advice)
    return ok(clipboard_ways.how([], True, environ))


# -- storage -----------------------------------------------------------------------------------------------------------


def settings(machine: Machine) -> Finding:
    file = machine.home / CONFIG
    if machine.settings_error:
        return missing(machine.settings_error, _("Until then this report uses the default settings."))
    if not file.exists():
        return ok(_("default settings; {file} does not exist").format(file=file))
    return ok(str(file))


def database(machine: Machine) -> Finding:
    """Whether the database can be opened by this version and is intact."""
    number = ".".join(map(str, sqlite_version()))
    file = machine.home / "handloom.db"
    try:
        check_can_open(file)
    except StoreError as error:
        return missing(str(error))
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
        return note(found, advice.format(fixed=".".join(map(str, FIXED_VERSION))))
    return ok(found)


def _read(file: Path, number: str) -> tuple[Finding | None, str]:
    """Return a finding if something is wrong, else the facts about the database."""
    try:
        version, count, integrity = _inspect(file)
    except sqlite3.Error as error:
        return missing(f"{file}: {error}", remedy(error)), ""
    if version > VERSION:
        found = _("{file} was written by a newer Handloom (schema {version})").format(file=file, version=version)
        return missing(found, _("Install the newer version, or set HANDLOOM_HOME to another folder.")), ""
    if integrity not in ("ok", ""):
        found = _("{file} is damaged: {what}").format(file=file, what=integrity)
        return missing(found, _("Recover what is readable with: handloom doctor --repair")), ""
    facts = _("{file}, schema {version}, conversations: {count}, SQLite {number}")
    text = facts.format(file=file, version=version, count=count, number=number)
    return None, text if integrity else _("{facts}; too large for a quick integrity check").format(facts=text)


def _inspect(file: Path) -> tuple[int, int, str]:
    """Return the schema version, the number of conversations, and `ok` or what is wrong; empty if time ran out."""
    # Without a write-ahead log nobody has it open, and SQLite would have to create one to read.
    state = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(file))}?{state}", uri=True, timeout=0.5)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        has_tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'conversations'").fetchone()
        count = connection.execute("SELECT count(*) FROM conversations").fetchone()[0] if has_tables else 0
        ends_at = time.monotonic() + DATABASE_CHECK_S
        connection.set_progress_handler(lambda: time.monotonic() > ends_at, SQLITE_STEPS)
        try:
            (integrity,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            integrity = ""
    return version, count, integrity


def disk(machine: Machine) -> Finding:
    """Whether the home folder is writable, its file system and free space."""
    home = machine.home
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    advice = _("Make {place} writable, or set HANDLOOM_HOME to another folder.").format(place=place)
    kind = _file_system(place)
    if not place.is_dir():
        return missing(_("{place} is not a folder").format(place=place), advice)
    if not os.access(place, os.W_OK | os.X_OK) or kind in KERNEL_FILE_SYSTEMS:
        return missing(_("{place} is not writable").format(place=place), advice)
    free_mb = shutil.disk_usage(place).free // MB
    found = _("{home}: {free} MB free on {kind}").format(home=home, free=f"{free_mb:,}", kind=kind)
    if kind in NETWORK_FILE_SYSTEMS:
        return note(found, _("Set HANDLOOM_HOME to a folder on a local disk. This one is on a network file system."))
    if free_mb < SCARCE_MB:
        return Finding(Mark.MISSING if free_mb < TOO_LITTLE_MB else Mark.NOTE, found, _("Free some disk space."))
    return ok(found)


def _file_system(place: Path) -> str:
    """The kernel's name of the file system under a folder, or a question mark."""
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


# -- models, servers, secrets ------------------------------------------------------------------------------------------


def model(machine: Machine) -> Finding:
    """The configured model and its key, else the models that could be chosen."""
    name, environ = machine.settings.model, _with_stored_keys(machine)
    others = [offer.name for offer in offers(environ, machine.settings.models)]
    if not name:
        if len(others) > 1:
            return ok(_("not configured; available: {names}").format(names=", ".join(others)))
        return note(
            _("no model and no API key is configured; only demo can be used"),
            _("Run handloom and choose a provider; it asks for the key. Or set a variable such as ANTHROPIC_API_KEY."),
        )
    try:
        create_llm(
            name,
            workspace=str(machine.workspace),
            host=ModelHost(),
            settings=machine.settings.llm,
            models=machine.settings.models,
            environ=environ,
        )
    except HandloomError as error:
        return missing(str(error), _("Available: {names}").format(names=", ".join(others)))
    variable = next((variable for variable in key_variables_of(name) if environ.get(variable)), "")
    if not variable:
        return ok(name)
    if not machine.environ.get(variable):
        return ok(_("{name}, with the stored {variable}").format(name=name, variable=variable))
    return ok(_("{name}, API key from {variable}").format(name=name, variable=variable))


def _with_stored_keys(machine: Machine) -> dict[str, str]:
    """The environment with the names of the keys in the vault; their values are not read."""
    try:
        stored = [one.name for one in Vault(machine.home).all() if one.scope in (EVERYWHERE, MODELS)]
    except ConfigurationError:  # the check of secrets says so
        stored = []
    return {**dict.fromkeys(stored, "stored"), **machine.environ}


def secrets(machine: Machine) -> Finding:
    """File modes and names; no value is read, except from config.toml."""
    home = machine.home
    for file in (home / VALUES, home / INDEX):
        if wrong := wrong_mode(file):
            return note(wrong)
    if home.exists() and stat.S_IMODE(home.stat().st_mode) & 0o077:
        found = _("other users can read {folder}").format(folder=home)
        return note(found, _("Run: chmod 700 on this folder."))
    try:
        keys = keys_in(home)
        count = len(Vault(home).all())
    except ConfigurationError as error:
        return note(str(error))
    if keys:
        found = _("{file} contains API keys: {settings}").format(file=home / CONFIG, settings=", ".join(keys))
        return note(found, _("Run handloom secrets adopt to move them to the secret store."))
    return ok(_("{count} stored; list them with handloom secrets list").format(count=count))


def servers(machine: Machine) -> Finding:
    """The user's MCP servers, and those of the workspace."""
    settings = machine.settings.mcp
    found, problems = of_project(str(machine.workspace)) if settings.project_servers != "never" else ([], [])
    specs = [*of_user(settings, str(machine.workspace), machine.environ), *found]
    if problems:
        return note(sanitize_line("; ".join(problems), NAMES_CELLS), _("Correct the file. The other servers work."))
    if not specs:
        return ok(_("none configured"))
    approvals = Approvals(machine.home)
    try:
        waiting = [spec for spec in specs if not approvals.is_approved(spec)]
    except ConfigurationError as error:
        return note(sanitize_line(str(error), NAMES_CELLS), _("Then approve the servers again."))
    path = inherited(machine.environ).get("PATH")
    is_here = machine.settings.runtime == "local"  # others run isolated servers elsewhere, with other programs
    here = [spec for spec in specs if spec.command and (is_here or not spec.is_isolated)]
    if absent := [spec for spec in here if not _is_there(spec, path)]:
        what = _("program not found for {names}").format(names=_names(absent))
        return note(what, _("Install the program, or correct the command in the settings."))
    ready = [spec for spec in specs if spec not in waiting]
    started = _("ready to start: {names}").format(names=_names(ready)) if ready else ""
    if not waiting:
        return ok(started)
    unapproved = _("waiting for your approval: {names}").format(names=_names(waiting))
    return note(
        "; ".join(filter(None, (started, unapproved))),
        keyed(_("Review them with {conv.mcp} and press y to approve.")),
    )


def _names(specs: list[ServerSpec]) -> str:
    return sanitize_line(", ".join(spec.name for spec in specs), NAMES_CELLS)


def _is_there(spec: ServerSpec, path: str | None) -> bool:
    """Whether the program of a server is found, as when it is started."""
    program = spec.command[0]
    return shutil.which(program, path=path) is not None or ("/" in program and (Path(spec.folder) / program).is_file())
