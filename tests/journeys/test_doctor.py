"""`handloom doctor` on machines with missing requirements: its report, advice and exit status."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.settings.config import Settings
from core.store.database import VERSION, sqlite3
from tests.doubles import FINISH, write_script
from tests.journeys.terminal import Terminal
from tests.journeys.test_bad_homes import in_a_mount
from tests.program import HANDLOOM, Handloom
from tests.runtime.action_server import KEY, Process
from tests.runtime.isolation.confined import SOMEBODY, own
from tui.doctor.checks import Machine, Mark, model
from tui.doctor.sandbox_checks import is_old

Findings = dict[str, dict[str, str]]
NOWHERE = "unix:///nowhere/docker.sock"


class Examined:
    """The findings by name, and the exit status."""

    def __init__(self, handloom: Handloom) -> None:
        done = handloom("doctor", "--json")
        assert done.err == ""
        told = json.loads(done.out)
        self.status = done.status
        self.findings: Findings = {check["name"]: check for check in told["checks"]}
        assert told["ok"] is (self.status == 0)

    def says(self, name: str, mark: str, found: str, advice: str = "") -> None:
        """One line is like this, and the exit status fits it."""
        finding = self.findings[name]
        assert finding["mark"] == mark, finding
        assert found in finding["found"], finding
        assert advice in finding["advice"], finding
        if mark == "missing":
            assert self.status == 1


def handloom(folder: Path, **environ: str) -> Handloom:
    """Without an engine, unless one is named."""
    return Handloom(folder, **{"DOCKER_HOST": NOWHERE, **environ})


def path_with(folder: Path, *programs: str) -> str:
    """A search path on which there are these programs only."""
    (folder / "bin").mkdir()
    for name in programs:
        (folder / "bin" / name).symlink_to(str(shutil.which(name)))
    return str(folder / "bin")


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Examined:
    """A machine without anything, whose user wants containers."""
    folder = tmp_path_factory.mktemp("bare")
    return Examined(handloom(folder, PATH=path_with(folder), TERM="dumb", HANDLOOM_RUNTIME="docker"))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    if process.child is not None:
        with process.child:
            process.child.terminate()


class TestReport:
    def test_each_check_has_a_line_and_a_verdict(self, tmp_path: Path) -> None:
        done = handloom(tmp_path)("doctor")
        assert done.status == 0, done.out
        assert done.lines[0].startswith("✓ Handloom")
        assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in done.lines[0]
        assert done.lines[-1] == "All requirements of the current settings are met."
        assert "\x1b" not in done.out

    def test_doctor_changes_nothing(self, tmp_path: Path) -> None:
        program = handloom(tmp_path)
        subprocess.run(["git", "init", "--quiet", str(program.workspace)], check=True)
        own(program.workspace)
        before = sorted(tmp_path.rglob("*"))
        Examined(program)
        assert sorted(tmp_path.rglob("*")) == before
        assert not program.home.exists()

    def test_output_is_available_in_ascii_and_other_languages(self, tmp_path: Path) -> None:
        plain = handloom(tmp_path, LC_ALL="C")("doctor").out
        assert plain.isascii()
        assert plain.startswith("+ Handloom")
        assert "数据库" in handloom(tmp_path, LANG="zh_CN.UTF-8")("doctor").out

    def test_no_secret_is_printed(self, tmp_path: Path) -> None:
        canary = "canary-7f3e91"
        address = f"https://user:{canary}@127.0.0.1:1"
        keys = {"ANTHROPIC_API_KEY": canary, "OPENAI_BASE_URL": address, "HTTPS_PROXY": address}
        as_text = handloom(
            tmp_path, DOCKER_HOST=f"tcp://user:{canary}@127.0.0.1:1", HANDLOOM__LLM__API_KEY=canary, **keys
        )
        as_json = handloom(tmp_path, DOCKER_HOST=f"ssh://user:{canary}@127.0.0.1:1", HANDLOOM__LLM__API_BASE=address)
        for done in (as_text("doctor"), as_json("doctor", "--json")):
            assert canary not in done.out + done.err
            assert "127.0.0.1:1" in done.out
        examined = Examined(handloom(tmp_path, ANTHROPIC_API_KEY=canary, HANDLOOM_MODEL="anthropic/claude"))
        examined.says("model", "ok", "anthropic/claude, API key from ANTHROPIC_API_KEY")


class TestSettings:
    def test_wrong_setting_is_one_failed_check(self, tmp_path: Path) -> None:
        examined = Examined(handloom(tmp_path, HANDLOOM__AGENT__MAX_ITERATIONS="none"))
        examined.says("settings", "missing", "agent.max_iterations", "default settings")
        assert examined.findings["git"]["mark"] == "ok"

    @pytest.mark.parametrize(
        ("name", "mark", "found"),
        [
            ("demo", Mark.OK, "demo"),
            ("anthropic/claude", Mark.MISSING, "ANTHROPIC_API_KEY is not set"),
            ("nonsense", Mark.MISSING, "is not a model name"),
            ("scripted:/nowhere", Mark.MISSING, "/nowhere"),
            ("", Mark.NOTE, "only demo can be used"),
        ],
    )
    def test_unusable_model_is_reported(self, tmp_path: Path, name: str, mark: Mark, found: str) -> None:
        told = model(Machine({}, tmp_path, tmp_path, Settings(model=name)))
        assert told.mark is mark
        assert found in told.found
        assert bool(told.advice) is (mark is not Mark.OK)


class TestDatabase:
    @pytest.fixture
    def used(self, tmp_path: Path) -> Handloom:
        program = handloom(tmp_path)
        assert program("run", "x", "--model", write_script(tmp_path, [FINISH])).status == 0
        return program

    def test_intact_database_passes(self, used: Handloom) -> None:
        before = files_below(used.home)
        Examined(used).says("database", "ok", f"schema {VERSION}, conversations: 1, SQLite")
        assert files_below(used.home) == before

    def test_open_database_is_read_without_disturbing_it(self, used: Handloom) -> None:
        with closing(sqlite3.connect(used.home / "handloom.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE conversations SET title = 'new'")
            Examined(used).says("database", "ok", "conversations: 1")
            connection.execute("COMMIT")

    @pytest.mark.parametrize("damage", ["no database", "torn"])
    def test_damaged_database_is_reported(self, used: Handloom, damage: str) -> None:
        file = used.home / "handloom.db"
        whole = file.read_bytes()
        file.write_bytes(b"something else " * 999 if damage == "no database" else whole[:4096] + b"\xff" * 20_000)
        Examined(used).says("database", "missing", "handloom.db", "handloom doctor --repair")

    def test_newer_database_is_reported(self, used: Handloom) -> None:
        with closing(sqlite3.connect(used.home / "handloom.db")) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        Examined(used).says(
            "database", "missing", f"newer Handloom (schema {VERSION + 1})", "Install the newer version"
        )

    def test_home_below_a_file_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        examined = Examined(handloom(tmp_path, HANDLOOM_HOME=str(tmp_path / "file" / "home")))
        examined.says("disk", "missing", "file is not a folder", "HANDLOOM_HOME")

    def test_home_that_cannot_be_created_is_reported(self, tmp_path: Path) -> None:
        Examined(handloom(tmp_path, HANDLOOM_HOME="/proc/handloom")).says("disk", "missing", "/proc is not writable")

    @pytest.mark.mount
    def test_full_disk_is_reported(self, tmp_path: Path) -> None:
        program = handloom(tmp_path)
        program.home.mkdir()
        mount = 'mount -t tmpfs -o size=8m none "$0"; exec "$@"'
        done = in_a_mount(program, mount, str(program.home), *HANDLOOM, "doctor")
        assert done.returncode == 1
        assert "8 MB free on tmpfs" in done.stdout
        assert "Free some disk space." in done.stdout


class TestTerminal:
    def test_dumb_terminal_is_reported(self, bare: Examined) -> None:
        bare.says("terminal", "note", "TERM is dumb", "handloom --screen-reader")
        bare.says("clipboard", "note", "not available", "OSC 52")

    def test_terminal_without_utf_8_is_reported(self, tmp_path: Path) -> None:
        environ = {"LC_ALL": "C", "NO_COLOR": "1", "SSH_TTY": "/dev/pts/1"}
        Examined(handloom(tmp_path, **environ)).says("terminal", "note", "no colours (NO_COLOR), 80x24, ssh", "UTF-8")

    def test_missing_clipboard_program_is_reported(self, tmp_path: Path) -> None:
        examined = Examined(handloom(tmp_path, WAYLAND_DISPLAY="w", PATH=path_with(tmp_path, "git")))
        examined.says("clipboard", "note", "OSC 52", "Install wl-clipboard")

    @pytest.mark.tmux
    def test_real_terminal_is_queried_and_restored(self, tmp_path: Path) -> None:
        terminal = Terminal(handloom(tmp_path), 120, 40)
        try:
            before = terminal.shell("stty -a")
            terminal.handloom("doctor")
            screen = terminal.wait_for("All requirements")
            assert "screen-256color, 256 colours, 120x40" in screen
            assert terminal.shell("stty -a") == before
        finally:
            terminal.close()


class TestSandbox:
    @pytest.mark.bubblewrap
    def test_available_isolation_is_reported(self, tmp_path: Path) -> None:
        program = handloom(tmp_path)
        own(program.workspace)
        Examined(program).says("walls", "ok", "bubblewrap 0.")

    def test_missing_bubblewrap_fails_only_if_required(self, tmp_path: Path) -> None:
        path = path_with(tmp_path, "git")
        program = handloom(tmp_path, PATH=path)
        own(program.workspace)
        Examined(program).says("walls", "note", "bubblewrap is not installed. Install", "with your permissions")
        demanded = handloom(tmp_path, PATH=path, HANDLOOM__SANDBOX__ISOLATION="bubblewrap")
        Examined(demanded).says("walls", "missing", "bubblewrap is not installed")

    def test_missing_programs_are_reported(self, bare: Examined) -> None:
        for name in ("git", "ripgrep", "tmux"):
            bare.says(name, "note", "not installed", "Install")
        bare.says("browser", "note", "Chromium was not found", "Install the chromium package")

    def test_hanging_program_does_not_block(self, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        for name in ("git", "chromium"):
            (tmp_path / "bin" / name).write_text("#!/bin/sh\nexec sleep 60\n")
            (tmp_path / "bin" / name).chmod(0o755)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        examined = Examined(handloom(tmp_path, PATH=path))
        examined.says("git", "note", "does not report its version")
        assert examined.findings["tmux"]["mark"] in ("ok", "note")


class TestRemote:
    def test_remote_server_is_reported_as_reachable_or_not(self, process: Process, tmp_path: Path) -> None:
        process.start(where=("--port", "0"))
        url = process.ready().split()[-1]
        wanted = {"HANDLOOM_RUNTIME": "remote", "HANDLOOM__REMOTE__URL": url}
        there = Examined(handloom(tmp_path, HANDLOOM_REMOTE_KEY=KEY, **wanted))
        there.says("remote", "ok", url)
        assert there.status == 0
        Examined(handloom(tmp_path, HANDLOOM_REMOTE_KEY="x" * 64, **wanted)).says(
            "remote", "missing", "rejects the key"
        )
        Examined(handloom(tmp_path, **wanted)).says("remote", "missing", "HANDLOOM_REMOTE_KEY")


class TestEngine:
    def test_missing_engine_is_reported(self, tmp_path: Path) -> None:
        examined = Examined(handloom(tmp_path))
        examined.says("engine", "note", f"{NOWHERE}: no container engine is running", "make engine")
        examined.says("image", "note", "no container engine is available")
        assert examined.status == 0

    @pytest.fixture
    def silent(self, tmp_path: Path) -> Iterator[str]:
        """An engine that takes connections and says nothing."""
        path = tmp_path / "silent.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(16)
            yield f"unix://{path}"

    def test_hanging_engine_is_reported(self, tmp_path: Path, silent: str) -> None:
        examined = Examined(handloom(tmp_path, DOCKER_HOST=silent))
        examined.says("engine", "note", "it does not respond", "Restart the container engine")

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can give a socket away")
    def test_inaccessible_engine_is_reported(self, tmp_path: Path, silent: str) -> None:
        path = silent.removeprefix("unix://")
        os.chmod(path, 0o600)
        os.chown(path, SOMEBODY, SOMEBODY)
        program = handloom(tmp_path, DOCKER_HOST=silent)
        powerless = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
        done = subprocess.run(
            [*powerless, *HANDLOOM, "doctor"], env=program.environ, cwd="/", capture_output=True, text=True, check=False
        )
        assert "no permission to use its socket" in done.stdout
        assert "Add your user to the docker group" in done.stdout

    def test_requirements_of_the_chosen_runtime_are_reported(self, bare: Examined) -> None:
        for name in ("engine", "image", "containers"):
            bare.says(name, "missing", "engine")
        bare.says("walls", "ok", "not used")

    @pytest.mark.docker
    def test_reachable_engine_passes(self, tmp_path: Path) -> None:
        examined = Examined(handloom(tmp_path, DOCKER_HOST=os.environ.get("DOCKER_HOST", "")))
        finding = examined.findings["engine"]
        assert finding["mark"] in ("ok", "note")
        assert "(API 1." in finding["found"]
        assert "runc" in finding["found"]
        examined.says("containers", "ok", "Handloom containers: ")
        host = os.environ.get("DOCKER_HOST", "")
        missing = handloom(tmp_path, HANDLOOM__DOCKER__ENGINE=host, HANDLOOM__DOCKER__BASE="nowhere:1")
        Examined(missing).says("image", "note", "not built yet for this version on nowhere:1", "handloom image build")
        named = handloom(tmp_path, HANDLOOM__DOCKER__ENGINE=host, HANDLOOM__DOCKER__IMAGE="nowhere:2")
        Examined(named).says("image", "note", "nowhere:2 was not found", "docker.image")

    @pytest.mark.parametrize(
        ("runc", "old"),
        [("1.1.5+ds1", True), ("1.2.7", True), ("1.2.8", False), ("1.3.2-rc1", True), ("1.3.3", False), ("?", False)],
    )
    def test_vulnerable_runc_is_reported(self, runc: str, old: bool) -> None:
        assert is_old(runc) is old


def test_mcp_servers_are_reported_with_their_start_problem(tmp_path: Path) -> None:
    program = handloom(tmp_path)
    Examined(program).says("mcp", "ok", "none configured")
    (program.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"projects": {"command": "sh"}}}))
    Examined(program).says("mcp", "note", "waiting for your approval: projects", "press y")
    (program.home).mkdir(exist_ok=True)
    (program.home / "config.toml").write_text('[mcp.servers.mine]\ncommand = "no-such-program"\n')
    Examined(program).says("mcp", "note", "program not found for mine", "Install the program")
    (program.home / "config.toml").write_text('[mcp.servers.mine]\ncommand = "sh"\n')
    Examined(program).says("mcp", "note", "ready to start: mine; waiting for your approval: projects")
    (program.workspace / ".mcp.json").write_text("{")
    Examined(program).says("mcp", "note", ".mcp.json cannot be read", "Correct the file")
