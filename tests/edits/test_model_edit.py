"""Edits by a model: a draft and a range of lines become the new text of a real file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.edits.model_edit import MAX_LINES, ModelEditor
from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import (
    Action,
    ErrorObservation,
    FileEditAction,
    FileEditObservation,
    FileEditSource,
    FileWriteAction,
    Observation,
    TokenUsage,
)
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse
from core.store.writer import Spent
from runtime.server.file_actions import Files
from tests.doubles import ScriptedRuntime, ignore
from tests.runtime.conftest import Watcher

OLD = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


class Disk(ScriptedRuntime):
    """Reads and writes files as the action server does."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.working_dir = str(folder)
        self._files = Files(lambda: str(folder))

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        return Path(path).read_bytes() if Path(path).exists() else None

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        if isinstance(action, FileWriteAction):
            return await self._files.write(action, action_id, Watcher().emit)
        assert isinstance(action, FileEditAction)
        return await self._files.edit(action, action_id, Watcher().emit)


class Model:
    """Answers one text after another, and keeps the requests."""

    name = "draft"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[LLMRequest] = []
        self.is_closed = False

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        usage = TokenUsage(model=self.name, prompt_tokens=10, completion_tokens=5)
        return LLMResponse("r", answer, usage=usage, cost=0.25)

    async def aclose(self) -> None:
        self.is_closed = True


class Bench:
    """A file and the editor."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "a.py"
        self.file.write_text(OLD)
        self.spent: list[Spent] = []
        self._folder = folder

    async def edit(
        self, model: Model, content: str, *, path: str = "a.py", start: int = 1, end: int = -1
    ) -> Observation:
        @asynccontextmanager
        async def draft_model() -> AsyncIterator[LLM]:
            yield model

        async def add(spent: Spent) -> None:
            self.spent.append(spent)

        editor = ModelEditor(Disk(self._folder), draft_model, add)
        source = FileEditSource.LLM_BASED_EDIT
        return await editor.execute(
            FileEditAction(path=path, content=content, impl_source=source, start=start, end=end), 3, ignore
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_model_writes_the_range_from_the_draft(bench: Bench) -> None:
    model = Model("```python\ndef two():\n    return 22\n```\n")
    done = await bench.edit(model, "# ... existing code ...\n    return 22", start=5, end=6)
    assert bench.file.read_text() == OLD.replace("return 2\n", "return 22\n")
    assert isinstance(done, FileEditObservation)
    assert (done.prev_exist, done.old_content, done.new_content) == (True, OLD, bench.file.read_text())
    assert done.impl_source is FileEditSource.LLM_BASED_EDIT
    assert "-    return 2\n+    return 22\n" in (done.diff or "")
    asked = model.requests[0].messages[1]["content"]
    assert "def two():\n    return 2\n" in asked
    assert "def one" not in asked, "only the range is shown"
    assert done.llm_metrics is not None
    assert done.llm_metrics.accumulated_cost == 0.25
    assert bench.spent == [Spent(1, 0.25, 0, 15)]


async def test_file_that_does_not_exist_is_created_without_a_model(bench: Bench) -> None:
    done = await bench.edit(Model(), "x = 1\n", path="sub/new.py")
    assert isinstance(done, FileEditObservation)
    assert (bench.file.parent / "sub/new.py").read_text() == "x = 1\n"


async def test_text_is_appended_without_a_model(bench: Bench) -> None:
    bench.file.write_text("last line without an end")
    assert isinstance(await bench.edit(Model(), "more", start=-1, end=-1), FileEditObservation)
    assert bench.file.read_text() == "last line without an end\nmore\n"


async def test_answer_without_a_code_block_is_asked_for_again_three_times(bench: Bench) -> None:
    model = Model("Here it is.", "```\nnot closed", "```\nx\n```")
    assert isinstance(await bench.edit(model, "x", start=1, end=1), FileEditObservation)
    assert bench.file.read_text() == OLD.replace("def one():\n", "x\n")
    assert len(bench.spent) == 3
    refused = await bench.edit(Model("no", "no", "no"), "x", start=1, end=1)
    assert isinstance(refused, ErrorObservation)
    assert "3 answers of the model had no code block" in refused.content


async def test_code_blocks_in_the_file_do_not_end_the_answer(bench: Bench) -> None:
    bench.file.write_text("text\n```\ncode\n```\n")
    model = Model("````\ntext\n```\nnew code\n```\n````")
    await bench.edit(model, "new code")
    assert bench.file.read_text() == "text\n```\nnew code\n```\n"


async def test_windows_line_ends_stay(bench: Bench) -> None:
    bench.file.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await bench.edit(Model("```\n2\n```"), "2", start=2, end=2)
    assert bench.file.read_bytes() == b"one\r\n2\r\nthree\r\n"


async def test_lines_are_counted_as_the_editor_counts_them(bench: Bench) -> None:
    bench.file.write_text("one\n\x0c\ntwo\x0b\u2028\x85\nthree\nfour\n")
    model = Model("```\n3\n```")
    await bench.edit(model, "3", start=4, end=4)
    assert bench.file.read_text() == "one\n\x0c\ntwo\x0b\u2028\x85\n3\nfour\n"
    assert "\nthree\n" in model.requests[0].messages[1]["content"]


@pytest.mark.parametrize("after", ["inserted before\n" + OLD, None])
async def test_file_that_changes_while_the_model_writes_is_left_alone(bench: Bench, after: str | None) -> None:
    class Slow(Model):
        async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
            bench.file.unlink() if after is None else bench.file.write_text(after)
            return await super().complete(request, on_frame, cause)

    done = await bench.edit(Slow("```\n    return 22\n```"), "return 22", start=6, end=6)
    assert isinstance(done, ErrorObservation)
    assert "was changed while the model wrote" in done.content
    assert (bench.file.read_text() if bench.file.exists() else None) == after


@pytest.mark.parametrize(
    ("content", "lines", "why"),
    [
        ("line\n" * (MAX_LINES + 1), (1, -1), f"Got (L1-L{MAX_LINES + 1}) {MAX_LINES + 1} lines"),
        ("one\n", (5, 2), "have no range 5 to 2"),
        (b"\xff\xfe\x00", (1, -1), "it is not UTF-8 text."),
    ],
)
async def test_range_or_file_that_cannot_be_edited_is_refused(
    bench: Bench, content: str | bytes, lines: tuple[int, int], why: str
) -> None:
    before = content if isinstance(content, bytes) else content.encode()
    bench.file.write_bytes(before)
    model = Model()
    done = await bench.edit(model, "x", start=lines[0], end=lines[1])
    assert isinstance(done, ErrorObservation)
    assert why in done.content
    assert bench.file.read_bytes() == before
    assert model.requests == []


@pytest.mark.parametrize(
    "fail",
    [
        lambda: ModelError(ModelErrorKind.SERVER, "The provider is down."),
        lambda: ConfigurationError("There is no model draft."),
    ],
)
async def test_failure_of_the_model_changes_nothing(bench: Bench, fail: Callable[[], Exception]) -> None:
    done = await bench.edit(Model(fail()), "x")
    assert isinstance(done, ErrorObservation)
    assert done.content == f"The edit of a.py was not made: {fail()}"
    assert bench.file.read_text() == OLD


async def test_same_lines_are_no_edit(bench: Bench) -> None:
    done = await bench.edit(Model(f"```\n{OLD}```"), "# ... existing code ...")
    assert isinstance(done, ErrorObservation)
    assert "the new lines are the same" in done.content
