"""The steps of the setup: which are run, repeated, skipped and reported, with a scripted sandbox."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import RuntimeUnavailableError
from core.events import Action, CmdOutputMetadata, CmdOutputObservation, CmdRunAction, ErrorObservation, Observation
from core.repository import NOT_INSTALLED_EXIT, PRE_COMMIT_SCRIPT, SETUP_SCRIPT
from core.sandbox.setup import NO_ISOLATION, READY, SCRIPTS_NOT_RUN, STARTING_RUNTIME, Setup
from core.sandbox_types import Say, silently
from core.settings.config import SandboxSettings
from core.store.conversations import FORK, ConversationInfo
from core.stream import EventStream, Frames
from tests.doubles import ScriptedRuntime
from tests.streams import heard, opened_stream

URL = "https://forge.example/us/thing"
BOTH = f"{SETUP_SCRIPT}\n{PRE_COMMIT_SCRIPT}"
STEPS = {"clone": "git clone", "init": "git init", "setup": "setup.sh <", "hook": "hooks/pre-commit"}
Notices = list[tuple[str, str, str]]


class Sandbox(ScriptedRuntime):
    """Answers each step by name and records the requests."""

    def __init__(self, scripts: str = "", isolation: str = "none", why_open: str = "") -> None:
        super().__init__(self._answer_to)
        self.isolation, self.why_open = isolation, why_open
        self.scripts = scripts
        self.fails: dict[str, Observation | None] = {}
        self.notes: list[str] = []
        self.errors: list[Exception] = []

    def _answer_to(self, action: Action) -> Observation | None:
        assert isinstance(action, CmdRunAction)
        step = next((name for name, part in STEPS.items() if part in action.command), "look")
        self.notes.append(step)
        if step in self.fails:
            return self.fails[step]
        return output(0, self.scripts if step == "look" else "")

    async def start(self, say: Say = silently) -> None:
        self.notes.append("start")
        if self.errors:
            raise self.errors.pop(0)
        say("It is being built.")

    async def rest(self) -> None:
        self.notes.append("rest")

    async def aclose(self) -> None:
        self.notes.append("close")

    def asked(self) -> list[str]:
        """The requests since the last call."""
        noted, self.notes = self.notes, []
        return noted


def output(exit_code: int, content: str = "") -> CmdOutputObservation:
    return CmdOutputObservation(command="", content=content, metadata=CmdOutputMetadata(exit_code=exit_code))


@dataclass
class SetupFixture:
    """A setup with its stream and the notices that it shows."""

    setup: Setup
    stream: EventStream
    notices: Notices = field(default_factory=list)


@asynccontextmanager
async def open_setup(
    tmp_path: Path, sandbox: Sandbox, repository: str = "", *, origin: str = "", **settings: Any
) -> AsyncIterator[SetupFixture]:
    now, frames = datetime.now(UTC), Frames()
    (tmp_path / "workspace").mkdir(parents=True, exist_ok=True)
    async with opened_stream(tmp_path / "store") as stream:
        setup = Setup(
            info=ConversationInfo(
                "c", "", str(tmp_path / "workspace"), "m", now, now, 0, repository=repository, origin=origin
            ),
            settings=SandboxSettings.model_validate(settings),
            runtime=sandbox,
            stream=stream,
            frames=frames,
            spawn=asyncio.create_task,
        )
        yield SetupFixture(setup, stream, heard(frames))
        await setup.aclose()


ALL = ["start", "clone", "look", "setup", "hook"]


@pytest.mark.parametrize(
    ("scripts", "isolation", "allowed", "asked"),
    [
        (BOTH, "none", "always", ALL),
        (BOTH, "docker", "isolated", ALL),
        (BOTH, "none", "isolated", ALL[:3]),
        (BOTH, "docker", "never", ALL[:3]),
        (SETUP_SCRIPT, "none", "always", ALL[:4]),
        (PRE_COMMIT_SCRIPT, "none", "always", [*ALL[:3], "hook"]),
        ("", "none", "always", ALL[:3]),
    ],
)
async def test_setup_steps_run_in_order_if_present_and_allowed(
    tmp_path: Path, scripts: str, isolation: str, allowed: str, asked: list[str]
) -> None:
    sandbox = Sandbox(scripts, isolation)
    async with open_setup(tmp_path, sandbox, URL, run_repository_scripts=allowed) as it:
        await it.setup.ready()
        assert sandbox.asked() == asked
        says_so = scripts != "" and (isolation, allowed) == ("none", "isolated")
        assert [id for _, id, _ in it.notices].count(SCRIPTS_NOT_RUN) == says_so
        log = await it.stream.read()
        assert sum(isinstance(e.event, ErrorObservation) for e in log) == says_so
        commands = [e.event for e in log if isinstance(e.event, CmdRunAction)]
        assert {command.cwd for command in commands if command.is_static} <= {"/workspace", "/workspace/thing"}


@pytest.mark.parametrize(
    ("init", "script", "asked"),
    [
        (False, "", ["start"]),
        (True, "", ["start", "init"]),
        (False, SETUP_SCRIPT, ["start", "look", "setup"]),
        (False, PRE_COMMIT_SCRIPT, ["start", "look", "hook"]),
    ],
)
async def test_folder_without_repository_runs_only_needed_steps(
    tmp_path: Path, init: bool, script: str, asked: list[str]
) -> None:
    sandbox = Sandbox(script)
    async with open_setup(tmp_path, sandbox, init_git_in_empty_workspace=init, run_repository_scripts="always") as it:
        if script:
            (tmp_path / "workspace/.openhands").mkdir()
            (tmp_path / "workspace" / script).touch()
        await it.setup.ready()
        assert sandbox.asked() == asked


async def test_steps_are_reported_with_times_and_missing_isolation_at_the_end(tmp_path: Path) -> None:
    sandbox = Sandbox(why_open="there is no bubblewrap")
    async with open_setup(tmp_path, sandbox, URL) as it:
        await it.setup.begin()
        assert {level for level, _, _ in it.notices} == {"info"}
        texts = [(id.removeprefix("STATUS$"), re.sub(r" in [0-9.]+ s[.]$", "", text)) for _, id, text in it.notices]
        assert texts[:6] == [
            ("STARTING_RUNTIME", "Starting the sandbox …"),
            ("STARTING_RUNTIME", "It is being built."),
            ("STARTING_RUNTIME", "Starting the sandbox: done"),
            ("RUNTIME_STARTED", "The sandbox is running."),
            ("SETTING_UP_WORKSPACE", f"Cloning {URL} …"),
            ("SETTING_UP_WORKSPACE", f"Cloning {URL}: done"),
        ]
        assert [id for _, id, _ in it.notices[-2:]] == [READY, NO_ISOLATION]
        assert "there is no bubblewrap" in it.notices[-1][2]
        sandbox.errors.append(RuntimeUnavailableError("It died."))
        with pytest.raises(RuntimeUnavailableError, match="It died"):
            await it.setup.ready()
        assert it.notices[-1] == ("error", STARTING_RUNTIME, "It died.")
        before = len(it.notices)
        await it.setup.ready()
        await it.setup.begin()
        assert [text for _, _, text in it.notices[before:]] == ["It is being built."] * 2
        assert sandbox.asked().count("clone") == 1


async def test_failure_is_raised_for_the_first_action_and_retried_for_the_next(tmp_path: Path) -> None:
    sandbox = Sandbox()
    sandbox.errors += [RuntimeUnavailableError("No room."), OSError("odd")]
    async with open_setup(tmp_path, sandbox) as it:
        await it.setup.begin()
        assert sandbox.asked() == ["start"]
        assert it.notices[-1] == ("error", STARTING_RUNTIME, "No room.")
        with pytest.raises(RuntimeUnavailableError, match="No room"):
            await it.setup.ready()
        assert sandbox.asked() == [], "it was not told yet"
        it.setup.skip()
        with pytest.raises(RuntimeUnavailableError, match="The sandbox cannot be started: OSError: odd"):
            await it.setup.ready()
        await it.setup.ready()
        assert sandbox.asked() == ["start", "start"]


@pytest.mark.parametrize(
    ("step", "skips", "again"),
    [
        ("clone", False, ["start", "clone", "look", "setup", "hook"]),
        ("clone", True, ["start", "look", "setup", "hook"]),
        ("setup", False, ["start", "setup", "hook"]),
        ("setup", True, ["start", "hook"]),
        ("hook", False, ["start", "hook"]),
        ("hook", True, ["start"]),
    ],
)
async def test_setup_continues_at_the_failed_step_or_skips_it(
    tmp_path: Path, step: str, skips: bool, again: list[str]
) -> None:
    sandbox = Sandbox(BOTH)
    sandbox.fails[step] = output(7, "why")
    async with open_setup(tmp_path, sandbox, URL, run_repository_scripts="always") as it:
        for _ in range(2):
            with pytest.raises(RuntimeUnavailableError, match=r"failed with exit code 7[^\0]*why"):
                await it.setup.ready()
        assert sandbox.asked()[-2:] == ["start", step]
        assert [level for level, _, text in it.notices if "exit code 7" in text] == ["error"] * 2
        sandbox.fails.clear()
        if skips:
            it.setup.skip()
        await it.setup.ready()
        assert sandbox.asked() == again
        it.setup.skip()
        await it.setup.ready()
        assert sandbox.asked() == ["start"], "what is done is done"


async def test_failed_hook_installation_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    sandbox = Sandbox(BOTH)
    sandbox.fails["hook"] = output(NOT_INSTALLED_EXIT, "there are two")
    async with open_setup(tmp_path, sandbox, URL, run_repository_scripts="always") as it:
        await it.setup.ready()
        assert [text for _, _, text in it.notices if "was not installed as hook: there are two" in text]
        sandbox.asked()
        await it.setup.ready()
        assert sandbox.asked() == ["start"]


@pytest.mark.parametrize(("end", "noted"), [(Setup.restart, "close"), (Setup.rest, "rest")])
async def test_new_sandbox_starts_in_the_work_folder_without_cloning(
    tmp_path: Path, end: Callable[[Setup], Any], noted: str
) -> None:
    sandbox = Sandbox(BOTH)
    async with open_setup(tmp_path, sandbox, URL, run_repository_scripts="always") as it:
        await end(it.setup)
        await it.setup.ready()
        assert sandbox.asked() == [noted, *ALL], "it had not begun"
        for _ in range(2):
            await end(it.setup)
            await it.setup.ready()
            assert sandbox.asked() == [noted, "start", "look", "setup"]


async def test_callers_share_an_attempt_and_an_interrupt_starts_a_new_one(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox()
    sandbox.fails["clone"] = None
    async with open_setup(tmp_path, sandbox, URL) as it:
        waiting = [asyncio.create_task(it.setup.ready()) for _ in range(2)]
        async with asyncio.timeout(20):
            await sandbox.started.wait()
            it.setup.interrupt()
            sandbox.fails.clear()
            behind = asyncio.create_task(it.setup.ready())
            for told in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(told, RuntimeUnavailableError)
                assert "was interrupted" in str(told)
            await behind
        assert sandbox.asked() == ["start", "clone", "start", "clone", "look"]
        assert any(text == "" for _, _, text in it.notices), "what was said of the step is taken back"
        it.setup.interrupt()
        await it.setup.ready()


async def test_closing_interrupts_the_setup_for_good(tmp_path: Path) -> None:
    sandbox = Sandbox()
    sandbox.fails["clone"] = None
    async with open_setup(tmp_path, sandbox, URL) as it:
        waiting = asyncio.create_task(it.setup.ready())
        async with asyncio.timeout(20):
            await sandbox.started.wait()
            await it.setup.aclose()
        assert sandbox.cancelled == 1
        *_, last = await it.stream.read()
        assert isinstance(last.event, CmdOutputObservation), "what was interrupted is answered by then"
        with pytest.raises(RuntimeUnavailableError, match="interrupted"):
            await waiting
        with pytest.raises(RuntimeUnavailableError, match="closed"):
            await it.setup.ready()
        await it.setup.begin()
        assert sandbox.asked() == ["start", "clone"]


async def test_copied_repository_of_a_fork_is_not_cloned(tmp_path: Path) -> None:
    commands = []
    for origin in ("", FORK):
        sandbox = Sandbox()
        async with open_setup(tmp_path / (origin or "new"), sandbox, URL, origin=origin) as it:
            await it.setup.ready()
            commands.append(str(sandbox.executed[0]))
    assert commands[0] != commands[1]
