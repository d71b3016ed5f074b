"""Memory: answers to recalls, where it looks, what it reports to the user, and files that it cannot read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from core.errors import ConfigurationError, RuntimeUnavailableError, UsageError
from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    CondensationAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileEditObservation,
    FileReadObservation,
    MicroagentKnowledge,
    NullObservation,
    RecallAction,
    RecallObservation,
    RecallType,
)
from core.memory.library import PROJECT, Library, Source, UserFolders, build_library
from core.memory.memory import (
    CHANGED,
    KNOWLEDGE_PROBLEMS,
    LOOKED_BACK,
    SHOWN_PROBLEMS,
    UNTRUSTED,
    Memory,
    Recalled,
    branch_in,
    branch_of,
    folders_along,
    known_in,
    recall,
    summary,
    with_saved_facts,
)
from core.memory.saved_facts import FILE, SavedFacts
from core.memory.view import View
from core.repository import Repository
from core.secrets import PLACEHOLDER, Redactor
from core.store.conversations import ConversationInfo
from core.stream import EventStream, Frames
from core.trust.folder_survey import Kind, Piece, Survey
from core.trust.trust_store import TrustPolicy
from tests.doubles import ScriptedRuntime
from tests.streams import heard, opened_stream

LATE_IN_NEW_YORK = datetime(2025, 1, 31, 23, 0, tzinfo=timezone(timedelta(hours=-5)))


def test_workspace_and_utc_date_are_recalled() -> None:
    action = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="hello")
    assert recall(action, workspace="/w", now=LATE_IN_NEW_YORK) == RecallObservation(
        content="Added workspace context",
        recall_type=RecallType.WORKSPACE_CONTEXT,
        working_dir="/w",
        date="2025-02-01",
    )


def test_unknown_query_returns_nothing() -> None:
    action = RecallAction(recall_type=RecallType.KNOWLEDGE, query="hello")
    assert recall(action, workspace="/w", now=LATE_IN_NEW_YORK) == NullObservation()


def said(id: int, event: Event) -> Envelope:
    return Envelope(conversation_id="c", id=id, timestamp=LATE_IN_NEW_YORK, source=EventSource.ENVIRONMENT, event=event)


def library() -> Library:
    texts = {"a.md": "---\ntriggers: [release]\n---\nOn Mondays.", "b.md": "Always so."}
    pieces = [Piece(Kind.MICROAGENT, path, text) for path, text in texts.items()]
    return build_library([Source(PROJECT, [Piece(Kind.INSTRUCTIONS, "AGENTS.md", "Be kind."), *pieces])])


def test_first_recall_includes_everything() -> None:
    action = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="a release")
    found = recall(
        action,
        workspace="/w",
        now=LATE_IN_NEW_YORK,
        repository=Repository.parse("https://example.org/one.git"),
        branch="main",
        library=library(),
        hosts={"one": 80},
        secrets={"KEY": "opens the door"},
        conversation_instructions="Now.",
    )
    assert isinstance(found, RecallObservation)
    assert (found.repo_name, found.repo_directory, found.repo_branch) == ("one", "/w/one", "main")
    assert found.repo_instructions == "[AGENTS.md]\nBe kind.\n\n[b.md]\nAlways so."
    assert (found.runtime_hosts, found.custom_secrets_descriptions) == ({"one": 80}, {"KEY": "opens the door"})
    assert found.conversation_instructions == "Now."
    assert found.microagent_knowledge == [MicroagentKnowledge(name="a", trigger="release", content="On Mondays.")]


def test_knowledge_that_was_condensed_away_is_recalled_again() -> None:
    first = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="a release")
    later = RecallAction(recall_type=RecallType.KNOWLEDGE, query="a release")
    found = recall(first, workspace="/w", now=LATE_IN_NEW_YORK, library=library())
    log = [said(0, found)]
    known = known_in(View.of(log).events)
    answer = recall(later, workspace="/w", now=LATE_IN_NEW_YORK, library=library(), known=known)
    assert answer == NullObservation()
    forgets = CondensationAction(forgotten_event_ids=[0])
    log.append(said(1, forgets))
    known = known_in(View.of(log).events)
    answer = recall(later, workspace="/w", now=LATE_IN_NEW_YORK, library=library(), known=known)
    assert isinstance(answer, RecallObservation)
    assert sorted(one.name for one in answer.microagent_knowledge) == ["AGENTS.md", "a", "b.md"]


FACTS = {"System": "Debian 12, x86_64", "Network": "none", "Git": "branch main, clean"}


def test_only_changed_facts_about_the_environment_are_told_again() -> None:
    first = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="hello")
    later = RecallAction(recall_type=RecallType.KNOWLEDGE, query="hello")
    found = recall(first, workspace="/w", now=LATE_IN_NEW_YORK, facts=FACTS)
    assert isinstance(found, RecallObservation)
    assert found.environment == FACTS
    log = [said(0, found)]

    def told(facts: Mapping[str, str]) -> Recalled:
        known = known_in(View.of(log).events)
        return recall(later, workspace="/w", now=LATE_IN_NEW_YORK, known=known, facts=facts)

    assert told(FACTS) == told({}) == NullObservation()
    moved = {**FACTS, "Git": "branch topic, clean"}
    changed = told(moved)
    assert isinstance(changed, RecallObservation)
    assert (changed.content, changed.environment) == (CHANGED, {"Git": "branch topic, clean"})
    log.append(said(1, changed))
    assert told(moved) == NullObservation()
    assert told(FACTS) == changed.model_copy(update={"environment": {"Git": "branch main, clean"}})
    log.append(said(2, CondensationAction(forgotten_event_ids=[0, 1])))
    assert told(moved) == changed.model_copy(update={"environment": moved}), "it was condensed away"


FIRST = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="hello")


class Facing(ScriptedRuntime):
    """Answers with these facts, or hangs or fails."""

    def __init__(self, *answers: Mapping[str, str] | Exception | None) -> None:
        super().__init__()
        self.answers = list(answers)

    async def facts(self) -> Mapping[str, str]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return answer or {}


class Elsewhere(ScriptedRuntime):
    """The project is on another machine, whose git says this."""

    workspace_host = "there:22"
    is_elsewhere = True

    def __init__(self, head: bytes | Exception | None = None) -> None:
        super().__init__()
        self.head = head
        self.allowed: list[str] = []

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        assert path == "/workspace/thing/.git/HEAD"
        if isinstance(self.head, Exception):
            raise self.head
        return self.head


class Allowing(ScriptedRuntime):
    """Notes which folders it may read."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed: list[str] = []

    def allow(self, *, host: str = "", folder: str = "") -> None:
        self.allowed.append(folder)


async def marked(found: Recalled) -> Recalled:
    """Adds a marker in place of the user's facts."""
    said = f"{found.conversation_instructions} +" if isinstance(found, RecallObservation) else ""
    return found.model_copy(update={"conversation_instructions": said}) if said else found


def secrets() -> Mapping[str, str]:
    return {"TOKEN": "for the forge"}


def unreadable() -> Mapping[str, str]:
    raise ConfigurationError("The keyring is locked.")


@asynccontextmanager
async def recollecting(
    tmp_path: Path,
    *,
    runtime: ScriptedRuntime | None = None,
    mode: str = "ask",
    repository: str = "",
    is_known: bool = True,
    secrets: object = secrets,
) -> AsyncIterator[tuple[Memory, EventStream, list[tuple[str, str, str]]]]:
    for name in ("home", "workspace"):
        (tmp_path / name).mkdir(exist_ok=True, mode=0o700)
    now, frames = datetime.now(UTC), Frames()
    async with opened_stream(tmp_path / "store") as stream:
        memory = Memory(
            own=UserFolders(tmp_path / "home") if is_known else None,
            policy=TrustPolicy(tmp_path / "home", lambda: mode),
            info=ConversationInfo("c", "", str(tmp_path / "workspace"), "m", now, now, 0, repository=repository),
            runtime=runtime or ScriptedRuntime(),
            stream=stream,
            frames=frames,
            secrets=secrets,  # type: ignore[arg-type]
            add_facts=marked,
        )
        yield memory, stream, heard(frames)


async def nothing() -> list[Envelope]:
    return []


async def answered(memory: Memory, stream: EventStream) -> RecallObservation:
    asked = await stream.append(FIRST, EventSource.USER)
    await memory.answer(asked, nothing)
    *_, answer = await stream.read()
    assert (answer.cause, answer.source) == (asked.id, EventSource.ENVIRONMENT)
    assert isinstance(answer.event, RecallObservation)
    return answer.event


@pytest.mark.parametrize(("told", "expected"), [(secrets, {"TOKEN": "for the forge"}), (unreadable, {})])
async def test_without_user_folders_workspace_and_secrets_are_recalled(
    tmp_path: Path, told: object, expected: dict[str, str]
) -> None:
    async with recollecting(tmp_path, is_known=False, secrets=told) as (memory, stream, notices):
        memory.instructions = "Be brief."
        assert not memory.exists
        await memory.refresh()
        found = await answered(memory, stream)
        assert (found.working_dir, found.custom_secrets_descriptions) == ("/workspace", expected)
        assert found.conversation_instructions == "Be brief. +"
        assert (notices, memory.gathered, memory.needs_sandbox) == ([], None, False)


@pytest.mark.parametrize("answer", [None, ValueError("A bug.")])
async def test_slow_or_failing_look_around_leaves_the_facts_of_before(
    tmp_path: Path, answer: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.memory.memory.FACTS_WAIT_S", 0.01)
    async with recollecting(tmp_path, runtime=Facing(FACTS, answer, answer)) as (memory, stream, _):
        await memory.look_around()
        assert (await answered(memory, stream)).environment == FACTS
    (tmp_path / "other").mkdir()
    async with recollecting(tmp_path / "other", runtime=Facing(answer)) as (memory, stream, _):
        assert (await answered(memory, stream)).environment == {}


async def test_pending_approvals_and_broken_files_are_reported_once(tmp_path: Path) -> None:
    async with recollecting(tmp_path) as (memory, _, notices):
        folder = tmp_path / "workspace"
        assert (memory.exists, memory.home) == (True, tmp_path / "home")
        await memory.refresh()
        assert notices == []
        (folder / "AGENTS.md").write_text("Be kind.")
        agents = folder / ".openhands/microagents"
        agents.mkdir(parents=True)
        for n in range(SHOWN_PROBLEMS + 2):
            (agents / f"{n}.md").write_text("---\nname: [\n---\nx")
        await memory.look(reports=False)
        assert notices == []
        for _ in range(2):
            await memory.refresh()
        assert [(level, id) for level, id, _ in notices] == [("info", UNTRUSTED)]
        assert f"handloom trust give {folder}" in notices[0][2]
        assert "as it was before" not in notices[0][2]
        gathered = memory.gathered
        assert gathered is not None
        memory._policy.store.approve(gathered.standing.survey.folder, gathered.standing.waiting)
        await memory.refresh()
        (_, lines) = notices[1:]
        assert notices[1] == ("info", UNTRUSTED, "")
        assert lines[:2] == ("info", KNOWLEDGE_PROBLEMS)
        assert len(lines[2].splitlines()) == SHOWN_PROBLEMS + 1
        assert lines[2].endswith("\nand 2 more: /skills")
        (agents / "0.md").unlink()
        (agents / "1.md").unlink()
        await memory.refresh()
        assert len(notices[-1][2].splitlines()) == SHOWN_PROBLEMS
        assert "/skills" not in notices[-1][2]


async def test_without_project_knowledge_no_approval_is_requested(tmp_path: Path) -> None:
    async with recollecting(tmp_path, mode="never") as (memory, _, notices):
        (tmp_path / "workspace/AGENTS.md").write_text("Be kind.")
        await memory.refresh()
        assert notices == []


async def test_sandbox_may_read_existing_skills_of_the_user(tmp_path: Path) -> None:
    runtime = Allowing()
    async with recollecting(tmp_path, runtime=runtime) as (memory, _, _):
        memory.allow_skills()
        assert runtime.allowed == []
        (tmp_path / "home/skills").mkdir()
        memory.allow_skills()
        assert runtime.allowed == [str(tmp_path / "home/skills")]
    (tmp_path / "other").mkdir()
    async with recollecting(tmp_path / "other", runtime=runtime, is_known=False) as (memory, _, _):
        memory.allow_skills()
        assert len(runtime.allowed) == 1


def command(folder: str, *, hidden: bool = False) -> Event:
    metadata = CmdOutputMetadata(working_dir=folder)
    return CmdOutputObservation(command="x", content="", hidden=hidden, metadata=metadata)


OUTSIDE = command("/elsewhere")


@pytest.mark.parametrize(
    ("events", "along"),
    [
        ([], []),
        ([command("/workspace/a/b")], ["a", "a/b"]),
        ([command("/workspace")], []),
        ([command("/workspace/a"), OUTSIDE], []),
        ([OUTSIDE, command("/workspace/a")], ["a"]),
        ([command("/workspace/a"), command("/workspace/b", hidden=True)], ["a"]),
        ([FileReadObservation(content="", path="/workspace/a/b/c.py")], ["a", "a/b"]),
        ([FileEditObservation(content="", path="/workspace/a/c.py")], ["a"]),
        ([command("/workspace/a"), ErrorObservation(content="x")], ["a"]),
        ([CmdOutputObservation(command="x", content="")], []),
        ([command("/workspace/a"), *([command("/workspace/b", hidden=True)] * (LOOKED_BACK - 1))], ["a"]),
    ],
)
async def test_path_to_the_last_working_folder_is_searched(
    tmp_path: Path, events: list[Event], along: list[str]
) -> None:
    async with recollecting(tmp_path) as (memory, stream, _):
        for event in events:
            await stream.append(event, EventSource.AGENT)
        await memory.look()
        assert list(memory.along) == along


REPOSITORY = "https://forge.example/us/thing"


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        (b"ref: refs/heads/trunk\n", "trunk"),
        (None, ""),
        (RuntimeUnavailableError("Gone."), ""),
        (UsageError("It is longer."), ""),
    ],
)
async def test_branch_of_a_remote_project_is_read_on_its_machine(
    tmp_path: Path, head: bytes | Exception | None, branch: str
) -> None:
    async with recollecting(tmp_path, runtime=Elsewhere(head), repository=REPOSITORY, is_known=False) as (
        memory, stream, _,
    ):  # fmt: skip
        found = await answered(memory, stream)
        assert (found.repo_name, found.repo_directory, found.repo_branch) == ("thing", "/workspace/thing", branch)
        assert memory.needs_sandbox


@pytest.mark.parametrize(("repository", "below"), [("", ""), (REPOSITORY, "thing")])
async def test_local_project_is_the_workspace_or_its_repository(tmp_path: Path, repository: str, below: str) -> None:
    async with recollecting(tmp_path, repository=repository) as (memory, stream, _):
        folder = tmp_path / "workspace" / below
        git = folder / ".git"
        git.mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/trunk\n")
        assert (memory.folder, memory.needs_sandbox) == (str(folder), bool(repository))
        assert memory.sandbox_folder == str(Path("/workspace") / below)
        assert (await answered(memory, stream)).repo_branch == ("trunk" if repository else "")


def piece(kind: Kind, n: int) -> Piece:
    return Piece(kind, f"{n}", "text")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ([], "nothing"),
        ([Kind.INSTRUCTIONS], "instructions"),
        ([Kind.INSTRUCTIONS] * 2, "2 files with instructions"),
        ([Kind.SKILL, Kind.HOOKS, Kind.MCP, Kind.AGENT], "a skill, an agent, hooks, MCP servers"),
        ([Kind.SKILL] * 3 + [Kind.AGENT] * 2, "3 skills, 2 agents"),
    ],
)
def test_recalled_knowledge_is_summarized_for_people(kinds: list[Kind], said: str) -> None:
    found = summary(Survey("/w", tuple(piece(kind, n) for n, kind in enumerate(kinds))))
    assert found == said


@pytest.mark.parametrize(
    ("place", "folders"),
    [
        ("/w", []),
        ("/w/", []),
        ("/w/a", ["a"]),
        ("/w/a/b/c", ["a", "a/b", "a/b/c"]),
        ("/w/a//b/./c/..", ["a", "a/b"]),
        ("/wide/a", []),
        ("/other", []),
        ("", []),
    ],
)
def test_folders_on_a_path_are_listed(place: str, folders: list[str]) -> None:
    assert folders_along("/w", place) == folders


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        (b"ref: refs/heads/main\n", "main"),
        (b"ref: refs/heads/a/b", "a/b"),
        (b"ref: refs/tags/v1\n", ""),
        (b"0123abc\n", ""),
        (b"ref: refs/heads/\x1b[31m", ""),
        (b"", ""),
    ],
)
def test_branch_is_read_from_head(tmp_path: Path, head: bytes, branch: str) -> None:
    assert branch_in(head) == branch
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_bytes(head)
    assert branch_of(str(tmp_path)) == branch


def test_folder_without_git_or_with_a_trap_has_no_branch(tmp_path: Path) -> None:
    assert branch_of(str(tmp_path)) == ""
    assert branch_of(str(tmp_path / "gone")) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").symlink_to("/etc/hostname")
    assert branch_of(str(tmp_path)) == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeUnavailableError("Gone."), ""),
        (TimeoutError(), "there:22 answered too slowly; the files of the project that were read before are used."),
        (OSError(28, "No space left on device"), "{folder}: No space left on device"),
    ],
)
async def test_unreachable_remote_project_is_reported_and_cached_knowledge_used(
    tmp_path: Path, error: Exception, told: str
) -> None:
    class Unreachable(Elsewhere):
        async def list_folder(self, path: str) -> list[str]:
            raise error

    async with recollecting(tmp_path, runtime=Unreachable()) as (memory, _, notices):
        (tmp_path / "home/AGENTS.md").write_text("Answer in rhymes.")
        Path(memory.folder).mkdir(parents=True)
        gathered = await memory.look()
        problems = told.format(folder=memory.folder)
        assert "\n".join(gathered.problems) == problems
        assert [text for _, id, text in notices if id == KNOWLEDGE_PROBLEMS] == [problems] * bool(problems)
        assert not gathered.library.is_empty
        assert Path(memory.folder).is_relative_to(tmp_path / "home")


# -- facts of the user -------------------------------------------------------------------------------------------------

FOUND = RecallObservation(recall_type=RecallType.WORKSPACE_CONTEXT, conversation_instructions="Be short.")


async def test_folder_memory_follows_the_instructions(tmp_path: Path) -> None:
    redactor = Redactor(["tk-Qv7Zr9xLm2Pw"])
    assert await with_saved_facts(FOUND, tmp_path, "/w", redactor) == FOUND
    SavedFacts(tmp_path, {}).add("use make with tk-Qv7Zr9xLm2Pw", "/w")
    SavedFacts(tmp_path, {}).add("of another folder", "/other")
    found = await with_saved_facts(FOUND, tmp_path, "/w", redactor)
    assert isinstance(found, RecallObservation)
    first, *lines = found.conversation_instructions.split("\n")
    assert (first, lines[-1]) == ("Be short.", f"- use make with {PLACEHOLDER}")
    assert "of another folder" not in found.conversation_instructions
    assert found == FOUND.model_copy(update={"conversation_instructions": found.conversation_instructions})
    bare = await with_saved_facts(FOUND.model_copy(update={"conversation_instructions": ""}), tmp_path, "/w", redactor)
    assert isinstance(bare, RecallObservation)
    assert bare.conversation_instructions == "\n".join(lines)


async def test_nothing_is_added_elsewhere_or_if_it_cannot_be_read(tmp_path: Path) -> None:
    SavedFacts(tmp_path, {}).add("use make", "/w")
    later = RecallObservation(recall_type=RecallType.KNOWLEDGE)
    assert await with_saved_facts(later, tmp_path, "/w", Redactor()) == later
    assert await with_saved_facts(NullObservation(), tmp_path, "/w", Redactor()) == NullObservation()
    (tmp_path / FILE).write_text("broken", "utf-8")
    assert await with_saved_facts(FOUND, tmp_path, "/w", Redactor()) == FOUND
