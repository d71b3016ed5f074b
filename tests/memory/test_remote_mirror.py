"""Knowledge of a project whose folder is on another machine: asked of its sandbox, and trusted as any other."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import RecallObservation
from core.memory.conversation_memory import build_messages
from core.memory.memory import KNOWLEDGE_PROBLEMS, UNTRUSTED
from core.memory.remote_mirror import ELSEWHERE, mirror_folder, refresh
from core.settings.config import Settings
from core.trust.folder_survey import MAX_FILES, survey_project
from tests.contract.remote_here import RemoteHere
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.memory.test_knowledge import SKILL, begun, notices, put, recalled, said, trusted

WEB_HOST = "https://sandbox.example:8001"
HOOKS = '[[hook]]\nevent = "before_action"\ncommand = "touch hooked"\n'


@pytest.fixture(autouse=True)
def no_server_stays() -> Iterator[None]:
    yield
    RemoteHere.end_servers()


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The folder of the other machine; the one of this machine has other words in it."""
    put(tmp_path / "workspace", "AGENTS.md", "Only here.")
    folder = tmp_path / "there"
    put(folder, "AGENTS.md", "Be kind.")
    put(folder, "part/AGENTS.md", "Use tabs.")
    put(folder, ".openhands/microagents/deep/release.md", "---\ntriggers: [release]\n---\nOn Mondays.")
    put(folder, ".handloom/skills/greeting/SKILL.md", SKILL)
    put(folder, ".handloom/skills/greeting/greet.sh", "echo hello")
    put(folder, ".handloom/hooks.toml", HOOKS)
    put(folder, ".handloom/agents/bad.md", "---\nname: Bad\n---\nBe bad.")
    put(folder, ".mcp.json", "{}")
    return folder


@asynccontextmanager
async def managing(tmp_path: Path, *options: str, **settings: Any) -> AsyncIterator[ConversationManager]:
    given = Settings.model_validate({"agent": {"confirm": "never"}, **settings})
    async with ConversationManager(
        tmp_path / "home",
        given,
        make_runtime=lambda workspace: RemoteHere(tmp_path / "there", options),
        environ={"HOME": str(tmp_path / "user")},
    ) as manager:
        yield manager


async def test_remote_files_apply_after_approval_but_never_hooks(tmp_path: Path, there: Path) -> None:
    turns = [FINISH, {"tool_calls": [bash("cd part")]}, FINISH, FINISH, FINISH]
    async with managing(tmp_path, "--web-host", f"{WEB_HOST}=8001") as manager:
        session = await begun(manager, tmp_path, turns)
        seen = notices(session)
        session.memory.instructions = "Answer in French."
        (first,) = recalled(await said(session, "a release"))
        assert (first.repo_instructions, first.microagent_knowledge) == ("", [])
        assert (first.working_dir, first.runtime_hosts) == (str(there), {WEB_HOST: 8001})
        assert first.conversation_instructions == "Answer in French."
        mirror = Path(session.memory.folder)
        assert mirror.is_relative_to(tmp_path / "home" / ELSEWHERE)
        assert f"handloom trust give {mirror}" in seen[UNTRUSTED]

        await trusted(manager, mirror)
        told = recalled(await said(session, "a release"))[-1]
        kinds = {one.name: one.content for one in told.microagent_knowledge}
        assert kinds == {"AGENTS.md": "Be kind.", "deep-release": "On Mondays."}
        assert not (there / "hooked").exists()
        assert not (there / "part" / "hooked").exists()

        put(there, "AGENTS.md", "Be rude.")  # like any program there
        log = await said(session, "again")
        assert "You trusted an earlier version of it" in seen[UNTRUSTED]
        assert "rude" not in str(build_messages(log))
        assert "Only here" not in str(build_messages(log))
        assert {piece.path for piece in survey_project(mirror, ["part"]).pieces} == {
            "AGENTS.md", "part/AGENTS.md", ".openhands/microagents/deep/release.md",
            ".handloom/skills/greeting/SKILL.md",
        }  # fmt: skip
        (there / "AGENTS.md").unlink()
        await said(session, "and again")
        assert not (mirror / "AGENTS.md").exists()


async def test_trusting_all_folders_applies_at_once_with_sandbox_paths(tmp_path: Path, there: Path) -> None:
    put(there, ".cursorrules", "x" * 70_000)
    async with managing(tmp_path, trust={"projects": "always"}) as manager:
        session = await begun(manager, tmp_path, [FINISH])
        seen = notices(session)
        (first,) = recalled(await said(session, "a release"))
        assert isinstance(first, RecallObservation)
        assert first.repo_instructions == "[AGENTS.md]\nBe kind."
        assert [one.content for one in first.microagent_knowledge] == ["On Mondays."]
        assert f"greeting ({there}/.handloom/skills/greeting/SKILL.md)" in first.additional_agent_instructions
        assert seen[KNOWLEDGE_PROBLEMS] == ".cursorrules: more than 64 KB. Shorten it."


async def test_branch_and_instructions_of_a_remote_clone_are_recalled(tmp_path: Path, there: Path) -> None:
    origin = tmp_path / "origin"
    put(origin, "AGENTS.md", "Be brief.")
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "-q", "-b", "trunk", origin), ("-C", origin, "add", "."),
                    ("-C", origin, *user, "commit", "-qm", "x")):  # fmt: skip
        await asyncio.to_thread(subprocess.run, ["git", *command], check=True)
    async with managing(tmp_path, trust={"projects": "always"}) as manager:
        session = await manager.create(
            workspace=str(tmp_path / "workspace"),
            model=write_script(tmp_path, [FINISH]),
            repository=f"{origin}#trunk",
        )
        (first,) = recalled(await said(session, "hello"))
        assert (first.repo_name, first.repo_directory, first.repo_branch) == ("origin", str(there / "origin"), "trunk")
        assert first.repo_instructions == "[AGENTS.md]\nBe brief."


async def test_unreachable_machine_is_skipped(tmp_path: Path, there: Path) -> None:
    class Gone(RemoteHere):
        def _launch(self) -> None:
            """No server listens there."""
            self._patience_s = 0.1

    async with ConversationManager(
        tmp_path / "home",
        Settings.model_validate({"agent": {"confirm": "never"}}),
        make_runtime=lambda workspace: Gone(there),
        environ={"HOME": str(tmp_path / "user")},
    ) as manager:
        session = await begun(manager, tmp_path, [FINISH])
        (first,) = recalled(await said(session, "hello"))
        assert (first.repo_instructions, first.runtime_hosts) == ("", {})


# -- hostile answers of the other machine ------------------------------------------------------------------------------


class Hostile(ScriptedRuntime):
    """Returns arbitrary listings and answers every request."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names
        self.asked: list[str] = []

    async def list_folder(self, path: str) -> list[str]:
        self.asked.append(path)
        return self.names

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        return b"x" * max_bytes


def test_mirror_is_inside_the_home_for_any_folder_name(tmp_path: Path) -> None:
    for top in ("/", "/../../etc", "//..//", "/a/../../b", "/\x00/\x1b[31m/ü", "/" + "x/" * 500, "relative"):
        folder = mirror_folder(tmp_path, "host:8443", top)
        assert folder.is_relative_to(tmp_path / ELSEWHERE / "host_8443"), top
        assert folder == mirror_folder(tmp_path, "host:8443", top)
        assert ".." not in folder.parts
    assert mirror_folder(tmp_path, "host:1", "/w") != mirror_folder(tmp_path, "host:2", "/w")
    assert mirror_folder(tmp_path, "..", "/w").is_relative_to(tmp_path / ELSEWHERE)


async def test_circular_or_huge_folder_is_limited(tmp_path: Path) -> None:
    names = [".openhands/", ".handloom/", ".agents/", "microagents/", "skills/", "commands/", "AGENTS.md"]
    hostile = Hostile([*names, *(f"{n}.md" for n in range(500))])
    folder = tmp_path / "home" / "mirror"
    await refresh(hostile, "/w", [], folder)
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert written
    assert sum(path.stat().st_size for path in written) <= 3 * 1024 * 1024
    assert len(hostile.asked) < 10 * MAX_FILES
