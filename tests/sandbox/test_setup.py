"""The setup before the first action, with real git, real shells and repositories on this disk."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.controller.exit_reasons import RUNTIME_UNAVAILABLE
from core.conversations.conversation_manager import ConversationManager
from core.errors import RuntimeUnavailableError, UsageError
from core.events import (
    CONVERSATION_TITLE,
    AgentState,
    AgentStateChangedObservation,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    Frame,
    Observation,
    RecallObservation,
    Status,
    TerminalOutput,
)
from core.protocols import Runtime
from core.repository import Repository
from core.sandbox.setup import NO_ISOLATION, SCRIPTS_NOT_RUN
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.stream import EventStreamSubscriber
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.stopped_clock import stopped_clock
from tests.warm_servers import WarmRuntime

SETUP, HOOK = ".openhands/setup.sh", ".openhands/pre-commit.sh"
RUNS_IN_A_SESSION = re.compile("AgentSession|AgentController|Setup|EnvironmentShell|EventStream[.]_serve")
README = {"README": "the readme\n"}


@pytest.fixture(autouse=True)
def _git_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's git settings are not used, and every commit has an author."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")


def git(folder: Path, *arguments: str) -> str:
    """A git command's output. Raises CalledProcessError."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_repository(path: Path, files: dict[str, str], *, branch: str = "") -> str:
    """A bare repository with these files, and a branch on which README says so; the answer is its address."""
    work = path.with_suffix(".work")
    work.mkdir(parents=True)
    git(work, "init", "--quiet", "--initial-branch=main")
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=first")
    if branch:
        git(work, "checkout", "--quiet", "-b", branch)
        (work / "README").write_text(f"on {branch}\n")
        git(work, "commit", "--quiet", "--all", "--message=second")
        git(work, "checkout", "--quiet", "main")
    git(work, "clone", "--quiet", "--bare", str(work), str(path))
    return str(path)


class Isolated(WarmRuntime):
    """Says that it separates the agent from the machine."""

    @property
    def isolation(self) -> str:
        return "docker"


def settings(**sandbox: Any) -> Settings:
    return Settings.model_validate({"agent": {"confirm": "never"}, "sandbox": sandbox})


ALWAYS = settings(run_repository_scripts="always")


@asynccontextmanager
async def conversation(
    tmp_path: Path,
    commands: Sequence[str],
    repository: str = "",
    *,
    with_settings: Settings | None = None,
    make_runtime: Callable[[str], Runtime] = WarmRuntime,
) -> AsyncIterator[AgentSession]:
    """A new conversation whose model runs these commands, one an answer, and finishes; then over again."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    model = write_script(tmp_path, [*({"tool_calls": [bash(command)]} for command in commands), FINISH] * 2)
    chosen = with_settings or settings()
    async with ConversationManager(tmp_path / "home", chosen, make_runtime=make_runtime, environ={}) as manager:
        yield await manager.create(workspace=str(workspace), model=model, repository=repository)


async def send_and_settle(session: AgentSession, text: str = "go") -> list[Envelope]:
    await session.send(text)
    async with asyncio.timeout(30):
        await session.settled()
    return await session.stream.read()


def notices(session: AgentSession) -> list[Status]:
    """The notices from now on, except those about titles."""
    seen: list[Status] = []

    def watch(frame: Frame) -> None:
        if isinstance(frame, Status) and frame.id != CONVERSATION_TITLE:
            seen.append(frame)

    session.frames.watch(watch)
    return seen


def printed(session: AgentSession, text: bytes) -> asyncio.Event:
    """Set as soon as a command has printed this."""
    seen = asyncio.Event()

    def look(frame: object) -> None:
        if isinstance(frame, TerminalOutput) and not frame.is_echo and text in frame.data:
            seen.set()

    session.frames.watch(look)
    return seen


def outputs(events: Sequence[Envelope]) -> list[str]:
    """The output of the agent's commands."""
    return [e.event.content for e in events if isinstance(e.event, CmdOutputObservation) and not e.event.hidden]


def by_environment(events: Sequence[Envelope]) -> list[Envelope]:
    """The commands of the environment. Each is hidden, and has exactly one observation after it, of the same source."""
    actions = [e for e in events if isinstance(e.event, CmdRunAction) and e.source is EventSource.ENVIRONMENT]
    for action in actions:
        assert isinstance(action.event, CmdRunAction)
        assert action.event.hidden
        answers = [e for e in events if isinstance(e.event, Observation) and e.cause == action.id]
        assert [(e.source, e.id > action.id) for e in answers] == [(EventSource.ENVIRONMENT, True)]
    return actions


def clones(events: Sequence[Envelope]) -> int:
    return sum("git clone" in e.event.command for e in by_environment(events) if isinstance(e.event, CmdRunAction))


def is_alive(pid_file: Path) -> bool:
    """Whether the process with this number is alive; a zombie is not."""
    try:
        state = Path(f"/proc/{int(pid_file.read_text())}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class TestWorkspace:
    async def test_repository_is_cloned_and_used_on_a_new_branch(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "it's a repo.git", README)
        async with conversation(tmp_path, ["pwd; cat README; git branch --show-current"], url) as session:
            seen = notices(session)
            events = await send_and_settle(session)
            folder = tmp_path / "workspace" / "it's a repo"
            assert outputs(events) == [f"{folder}\nthe readme\nopenhands-workspace-{session.info.id[:8]}"]
            assert session.state.agent_state is AgentState.FINISHED
            assert clones(events) == 1
            (recalled,) = [e.event for e in events if isinstance(e.event, RecallObservation)]
            assert (recalled.repo_name, recalled.repo_directory) == ("it's a repo", str(folder))
            assert os.listdir(tmp_path / "workspace") == ["it's a repo"]
            ids = list(dict.fromkeys(status.id for status in seen))
            assert ids == [
                "STATUS$STARTING_RUNTIME",
                "STATUS$RUNTIME_STARTED",
                "STATUS$SETTING_UP_WORKSPACE",
                "STATUS$READY",
            ]
            assert f"Cloning {url} …" in [status.message for status in seen]
            assert {status.level for status in seen} == {"info"}

    async def test_existing_repository_is_left_alone(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", README)
        async with conversation(tmp_path, ["echo mine > README; git checkout -qb mine"], url) as session:
            await send_and_settle(session)
        async with conversation(tmp_path, ["cat README; git branch --show-current"], f"{url}#main") as session:
            assert outputs(await send_and_settle(session)) == ["mine\nmine"]

    async def test_branch_is_checked_out_or_created(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", README, branch="fix/it")
        look = "cat README; git branch --show-current"
        async with conversation(tmp_path, [look], f"{url}#fix/it") as session:
            assert outputs(await send_and_settle(session)) == ["on fix/it\nfix/it"]
        (tmp_path / "workspace" / "repo").rename(tmp_path / "first")
        async with conversation(tmp_path, [look], f"file://{url}#new") as session:
            assert outputs(await send_and_settle(session)) == ["the readme\nnew"]

    async def test_empty_repository_can_be_used(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "--quiet", "--bare", "empty.git")
        async with conversation(tmp_path, ["git status --short --branch"], f"{tmp_path}/empty.git") as session:
            assert "openhands-workspace-" in outputs(await send_and_settle(session))[0]

    async def test_failed_clone_is_reported_and_retried(self, tmp_path: Path) -> None:
        async with conversation(tmp_path, ["cat README"] * 2, f"{tmp_path}/late.git") as session:
            seen = notices(session)
            events = await send_and_settle(session)
            (error,) = [e.event for e in events if isinstance(e.event, ErrorObservation)]
            assert error.error_id == RUNTIME_UNAVAILABLE
            assert error.content.startswith(f"Cloning {tmp_path}/late.git failed with exit code 1. Check the address")
            assert "does not exist" in error.content
            assert Status("error", "STATUS$SETTING_UP_WORKSPACE", error.content) in seen
            assert os.listdir(tmp_path / "workspace") == []
            make_repository(tmp_path / "late.git", README)
            events = await send_and_settle(session, "try again")
            assert outputs(events)[-1] == "the readme"
            assert clones(events) == 2

    async def test_folder_that_is_no_repository_is_kept(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", README)
        (tmp_path / "workspace" / "repo").mkdir(parents=True)
        (tmp_path / "workspace" / "repo" / "precious").touch()
        async with conversation(tmp_path, ["ls"], url) as session:
            await send_and_settle(session)
            assert "is not a git repository. Move it away." in session.state.reason
            assert (tmp_path / "workspace" / "repo" / "precious").exists()

    async def test_remains_of_a_killed_clone_are_removed(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", README)
        async with conversation(tmp_path, ["ls -A .."], url) as session:
            (tmp_path / "workspace" / f".handloom-clone-{session.info.id}" / ".git").mkdir(parents=True)
            assert outputs(await send_and_settle(session)) == ["repo"]

    async def test_clone_does_not_wait_for_a_password(self, tmp_path: Path) -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            async with conversation(tmp_path, ["ls"], f"http://127.0.0.1:{port}/repo.git") as session:
                await send_and_settle(session)
                assert "terminal prompts disabled" in session.state.reason

    async def test_empty_workspace_becomes_a_repository_if_configured(self, tmp_path: Path) -> None:
        wanted = settings(init_git_in_empty_workspace=True)
        async with conversation(tmp_path, ["git rev-parse --git-dir"], with_settings=wanted) as session:
            assert outputs(await send_and_settle(session)) == [".git"]
        workspace = tmp_path / "workspace"
        (workspace / ".git").rename(workspace / "full")
        async with conversation(tmp_path, ["ls -A"], with_settings=wanted) as session:
            assert outputs(await send_and_settle(session)) == ["full"]

    async def test_setup_without_steps_records_nothing(self, tmp_path: Path) -> None:
        async with conversation(tmp_path, ["pwd"]) as session:
            events = await send_and_settle(session)
            assert by_environment(events) == []
            assert outputs(events) == [str(tmp_path / "workspace")]


class TestScripts:
    async def test_setup_script_keeps_exports_but_not_options_or_folder(self, tmp_path: Path) -> None:
        script = "set -euo pipefail\nread -r answer || answer=nothing\nexport MADE=$PWD-$answer\ncd /\n"
        url = make_repository(tmp_path / "repo.git", {SETUP: script})
        commands = ['echo "$MADE"; false; pwd; echo "$UNSET"; git status --short']
        async with conversation(tmp_path, commands, url, with_settings=ALWAYS) as session:
            folder = tmp_path / "workspace" / "repo"
            assert outputs(await send_and_settle(session)) == [f"{folder}-nothing\n{folder}"]

    async def test_scripts_do_not_run_without_isolation(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", {SETUP: "touch made", HOOK: "true"})
        async with conversation(tmp_path, ["ls"], url) as session:
            seen, id = notices(session), session.info.id
            events = await send_and_settle(session)
            assert outputs(events) == [""]
            (told,) = [e.event for e in events if isinstance(e.event, ErrorObservation)]
            assert told.error_id == SCRIPTS_NOT_RUN
            assert told.content.startswith(f"{SETUP} and {HOOK} of the repository: not run, because")
            assert "run_repository_scripts" in told.content
            assert Status("info", SCRIPTS_NOT_RUN, told.content) in seen
            assert not (tmp_path / "workspace" / "repo" / ".git" / "hooks" / "pre-commit").exists()
        async with ConversationManager(tmp_path / "home", settings(), make_runtime=WarmRuntime, environ={}) as manager:
            events = await send_and_settle(await manager.open(id), "again")
            assert len([e for e in events if isinstance(e.event, ErrorObservation)]) == 1

    async def test_scripts_run_in_isolation_unless_never(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", {SETUP: "touch made"})
        never = settings(run_repository_scripts="never")
        async with conversation(tmp_path, ["ls"], url, with_settings=never, make_runtime=Isolated) as session:
            events = await send_and_settle(session)
            assert outputs(events) == [""]
            assert not [e for e in events if isinstance(e.event, ErrorObservation)]
        async with conversation(tmp_path, ["ls"], url, make_runtime=Isolated) as session:
            assert outputs(await send_and_settle(session)) == ["made"]

    async def test_script_of_a_local_folder_follows_the_same_rules(self, tmp_path: Path) -> None:
        workspace = tmp_path / "workspace"
        (workspace / ".openhands").mkdir(parents=True)
        (workspace / SETUP).write_text("touch made")
        async with conversation(tmp_path, ["ls"]) as session:
            assert outputs(await send_and_settle(session)) == [""]
        async with conversation(tmp_path, ["ls"], with_settings=ALWAYS) as session:
            assert outputs(await send_and_settle(session)) == ["made"]

    @pytest.mark.parametrize("ending", ["exit 3", "(exit 3)"])
    async def test_failed_setup_script_is_reported_and_retried(self, tmp_path: Path, ending: str) -> None:
        url = make_repository(tmp_path / "repo.git", {SETUP: f"echo no such tool\n{ending}\n"})
        async with conversation(tmp_path, ["pwd"] * 2, url, with_settings=ALWAYS) as session:
            await send_and_settle(session)
            assert session.state.agent_state is AgentState.ERROR
            assert session.state.reason.startswith(f"Running {SETUP} failed with exit code 3. Correct it")
            assert session.state.reason.endswith("no such tool")
            (tmp_path / "workspace" / "repo" / SETUP).write_text("true")
            events = await send_and_settle(session, "corrected")
            assert outputs(events) == [str(tmp_path / "workspace" / "repo")]
            assert clones(events) == 1, "it went on where it had failed"

    async def test_hanging_setup_script_is_stopped_at_its_limit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("core.sandbox.setup.SETUP_TIMEOUT_S", 0.5)
        script = f"trap '' INT\necho so far\nbash -c 'echo $$ > {tmp_path}/pid; exec sleep 600'\n"
        url = make_repository(tmp_path / "repo.git", {SETUP: script})
        async with conversation(tmp_path, ["echo alive"] * 2, url, with_settings=ALWAYS) as session:
            events = await send_and_settle(session)
            assert "took too long and was stopped" in session.state.reason
            (action,) = [e for e in by_environment(events) if "setup.sh </dev/null" in e.event.message]
            (output,) = [e.event for e in events if e.cause == action.id]
            assert isinstance(output, CmdOutputObservation)
            assert (output.content, output.exit_code) == ("so far", 124)
            (tmp_path / "workspace" / "repo" / SETUP).write_text("true")
            # what ignores an interrupt ends after 1 s
            monkeypatch.setattr("core.sandbox.setup.SETUP_TIMEOUT_S", 20)
            assert outputs(await send_and_settle(session, "again")) == ["alive"]
            assert not is_alive(tmp_path / "pid")


class TestHook:
    async def commit(self, tmp_path: Path) -> str:
        """Commit in the clone, and write the output of hooks to `hooks`."""
        folder = tmp_path / "workspace" / "repo"
        (tmp_path / "hooks").write_text("")
        git(folder, "commit", "--quiet", "--allow-empty", "--message=mine")
        return (tmp_path / "hooks").read_text()

    async def test_pre_commit_hook_is_installed_and_calls_the_previous_one(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", {HOOK: f"echo ours >> {tmp_path}/hooks\n"})
        folder = tmp_path / "workspace" / "repo"
        git(tmp_path, "clone", "--quiet", url, str(folder))
        hook = folder / ".git" / "hooks" / "pre-commit"
        hook.write_text(f"#!/bin/sh\necho before >> {tmp_path}/hooks\n")
        hook.chmod(0o755)
        for _ in range(2):  # the second conversation finds our own hook, and does not call it twice
            async with conversation(tmp_path, ["true"], url, with_settings=ALWAYS) as session:
                seen = notices(session)
                await send_and_settle(session)
                assert "STATUS$SETTING_UP_GIT_HOOKS" in [status.id for status in seen]
            assert await self.commit(tmp_path) == "before\nours\n"
        assert stat.S_IMODE(hook.stat().st_mode) == 0o755
        hook.with_name("pre-commit.local").write_text("#!/bin/sh\nexit 1\n")
        with pytest.raises(subprocess.CalledProcessError):
            await self.commit(tmp_path)

    async def test_pre_commit_hook_is_not_installed_for_other_repositories(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "config").write_text(f"[core]\n\thooksPath = {tmp_path}/shared\n")
        (tmp_path / "shared").mkdir()
        url = make_repository(tmp_path / "repo.git", {HOOK: "true"})
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
        async with conversation(tmp_path, ["true"], url, with_settings=ALWAYS) as session:
            seen = notices(session)
            await send_and_settle(session)
            assert session.state.agent_state is AgentState.FINISHED
            assert any("was not installed as hook: The git setting core.hooksPath" in status.message for status in seen)
        assert list((tmp_path / "shared").iterdir()) == []

    async def test_two_existing_pre_commit_hooks_are_kept(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", {HOOK: "true"})
        git(tmp_path, "clone", "--quiet", url, str(tmp_path / "workspace" / "repo"))
        hooks = tmp_path / "workspace" / "repo" / ".git" / "hooks"
        for name in ("pre-commit", "pre-commit.local"):
            (hooks / name).write_text(name)
        async with conversation(tmp_path, ["true"], url, with_settings=ALWAYS) as session:
            await send_and_settle(session)
        assert [(hooks / name).read_text() for name in ("pre-commit", "pre-commit.local")] == [
            "pre-commit",
            "pre-commit.local",
        ]


class TestWaiting:
    async def test_interrupt_ends_the_setup_and_the_next_message_restarts_it(self, tmp_path: Path) -> None:
        script = f"echo $BASHPID > {tmp_path}/pid\necho begun\n[ -e {tmp_path}/go ] || sleep 600\n"
        url = make_repository(tmp_path / "repo.git", {SETUP: script})
        async with conversation(tmp_path, ["pwd"] * 2, url, with_settings=ALWAYS) as session:
            begun = printed(session, b"begun")
            await session.send("go")
            async with asyncio.timeout(30):
                await begun.wait()
                await session.interrupt()
                (tmp_path / "go").touch()
                events = await send_and_settle(session, "go on")  # immediately: the interrupt does not wait for it
            assert session.state.agent_state is AgentState.FINISHED
            assert outputs(events)[-1] == str(tmp_path / "workspace" / "repo")
            assert clones(events) == 1

    async def test_unexpected_runtime_error_is_reported(self, tmp_path: Path) -> None:
        url = make_repository(tmp_path / "repo.git", README)
        runtime = ScriptedRuntime(lambda action: ValueError("boom"))
        async with conversation(tmp_path, ["true"] * 2, url, make_runtime=lambda workspace: runtime) as session:
            events = await send_and_settle(session)
            assert session.state.reason.endswith("ValueError: boom")
            assert len(by_environment(events)) == 1, "one attempt a message, however many wait for it"
            runtime.answer = lambda action: CmdOutputObservation(command="", metadata=CmdOutputMetadata(exit_code=0))
            await send_and_settle(session, "again")
            assert session.state.reason == ""


class TestClosing:
    """V0 gave up waiting after 5 s and closed the stream before its last events."""

    async def check_closing(self, session: AgentSession) -> None:
        """Close it; everything that was stored has been seen, in order, and no task is left."""
        seen: list[Envelope] = []

        async def see(envelope: Envelope) -> None:
            await asyncio.sleep(0)
            seen.append(envelope)

        before = session.stream.latest_id
        session.stream.subscribe(EventStreamSubscriber.TEST, see, "test")
        with stopped_clock(after_s=4):  # less than the 5 s after which a session drops what does not end
            await session.aclose()
        stored = await session.stream.read()
        assert [e.id for e in seen] == [e.id for e in stored if e.id > before]
        assert [e.event.agent_state for e in stored if isinstance(e.event, AgentStateChangedObservation)][
            -1
        ] is AgentState.STOPPED
        by_environment(stored)
        left = [
            name for name in (str(task.get_coro()) for task in asyncio.all_tasks()) if RUNS_IN_A_SESSION.search(name)
        ]
        assert left == []
        with pytest.raises(RuntimeUnavailableError, match="closed"):
            await session.setup.ready()

    async def test_closing_during_a_clone_leaves_nothing_running(self, tmp_path: Path) -> None:
        asked, gone = asyncio.Event(), asyncio.Event()

        async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            while await reader.read(1000):
                pass
            gone.set()
            writer.close()

        async with await asyncio.start_server(never_answer, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            async with conversation(tmp_path, ["true"], f"http://127.0.0.1:{port}/repo.git") as session:
                await session.send("go")
                async with asyncio.timeout(30):
                    await asked.wait()
                await self.check_closing(session)
                async with asyncio.timeout(10):
                    await gone.wait()

    async def test_closing_during_a_setup_script_leaves_nothing_running(self, tmp_path: Path) -> None:
        script = f"trap '' INT TERM HUP\nbash -c 'echo $$ > {tmp_path}/pid; echo begun; exec sleep 600'\n"
        url = make_repository(tmp_path / "repo.git", {SETUP: script})
        async with conversation(tmp_path, ["true"], url, with_settings=ALWAYS) as session:
            begun = printed(session, b"begun")
            await session.send("go")
            async with asyncio.timeout(30):
                await begun.wait()
            await self.check_closing(session)
            assert not is_alive(tmp_path / "pid")


class TestSecrets:
    async def test_address_with_a_password_is_refused_before_anything_is_stored(self, tmp_path: Path) -> None:
        home, environ = tmp_path / "home", {"GITHUB_TOKEN": "hunter2hunter2"}
        async with ConversationManager(home, settings(), make_runtime=WarmRuntime, environ=environ) as manager:
            for url in ("https://me:hunter2hunter2@example.org/b", "https://example.org/hunter2hunter2/b"):
                with pytest.raises(UsageError, match="Remove it"):
                    await manager.create(
                        workspace=str(tmp_path), model=write_script(tmp_path, [FINISH]), repository=url
                    )
            assert await manager.list() == []
        assert all(b"hunter2" not in file.read_bytes() for file in home.rglob("*") if file.is_file())


async def test_missing_isolation_is_reported_once_the_sandbox_runs(tmp_path: Path) -> None:
    class Open(WarmRuntime):
        @property
        def why_open(self) -> str:
            return "there is no bubblewrap"

    async with conversation(tmp_path, ["ls"], make_runtime=Open) as session:
        said: list[Status] = []
        session.frames.watch(lambda frame: said.append(frame) if isinstance(frame, Status) else None)
        await session.send("go")
        await session.settled()
    told = [status.message for status in said if status.id == NO_ISOLATION]
    assert told == ["No sandbox: commands run directly on this machine. there is no bubblewrap."]


async def test_sandbox_may_reach_the_chosen_repository(tmp_path: Path) -> None:
    class Noting(WarmRuntime):
        def allow(self, *, host: str = "", folder: str = "") -> None:
            allowed.append((host, folder))

    allowed: list[tuple[str, str]] = []
    there = make_repository(tmp_path / "there.git", README)
    async with conversation(tmp_path, ["ls"], there, make_runtime=Noting):
        pass
    assert allowed == [("", there)]
    assert Repository.parse("https://example.org:8443/a/b").host == "example.org:8443"
    assert Repository.parse("git@example.org:a/b").host == ""
    assert Repository.parse("file:///a%20b/c").folder == "/a b/c"


async def test_each_step_has_its_own_time_limit(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin.git", {**README, SETUP: "true\n", HOOK: "true\n"})
    async with conversation(tmp_path, ["true"], origin, with_settings=ALWAYS) as session:
        events = await send_and_settle(session)
        steps = [e.event for e in events if isinstance(e.event, CmdRunAction) and e.source is EventSource.ENVIRONMENT]
        assert [step.timeout for step in steps] == [1830, 90, 630, 90]
        assert all(step.hidden and step.blocking for step in steps)
        assert [step.is_static for step in steps] == [True, False, False, True]
