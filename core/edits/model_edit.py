"""Edits by a model: a FileEditAction with `content` and a range of lines, as of OpenHands V0's tool `edit_file`.

The content is a draft, which may leave out unchanged lines. A model writes the new text of the range from it, and the
sandbox writes that to the file. What it costs is in the observation; what a failed edit costs counts for the limits of
the day only.
"""

from __future__ import annotations

import difflib
import os.path
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from io import StringIO

from core.errors import ConfigurationError, ModelError, UsageError
from core.events import (
    Action,
    ErrorObservation,
    FileEditAction,
    FileEditObservation,
    FileEditSource,
    FileWriteAction,
    FileWriteObservation,
    Frame,
    LLMMetrics,
    Observation,
    Status,
)
from core.llm.metrics import add_response
from core.protocols import LLM, FrameSink, LLMRequest, Runtime
from core.store.writer import Spent

MAX_LINES = 300
"""The longest range, as in V0: a model that repeats more makes mistakes."""
MAX_BYTES = 4 * 1024 * 1024
MAX_WHOLE_CHARS = 100_000
"""The longest file whose old and new content are in the observation; the difference always is."""
ATTEMPTS = 3
"""Requests for an answer that has the text in a code block, as in V0."""
APPEND = -1
"""The start of a range behind the end of the file; as its end, the last line."""
INSTRUCTIONS = """\
You apply edits to files. You get lines of a file and a draft of what they become. Answer with the complete new lines \
in one code block that begins and ends with the line {fence}, and with nothing else.
The draft may leave out unchanged lines, usually behind a comment such as "... existing code ...": write them in full, \
unchanged. Keep the indentation, and every line that the draft does not change. Do not add explanations, and do not \
correct what the draft does not mention."""
AGAIN = "The answer has no code block that begins and ends with the line {fence}. Answer with that code block only."
TOO_LONG = (
    "[Edit error: The range of lines to edit is too long.]\n[The maximum number of lines allowed to edit at once is "
    f"{MAX_LINES}. Got (L{{start}}-L{{end}}) {{count}} lines.]\nGive a shorter range with start and end."
)
NO_FILE = "The file {path} cannot be edited: {why}"
NOT_MADE = "The edit of {path} was not made: {why}"
CHANGED = "the file was changed while the model wrote the new lines. View it, then edit it again."

DraftModel = Callable[[], AbstractAsyncContextManager[LLM]]
"""Opens the model that writes the new lines. Raises ConfigurationError."""
_RUNS = re.compile(r"`{3,}")


def is_model_edit(action: Action) -> bool:
    """Whether a model has to write what the action puts into the file."""
    return isinstance(action, FileEditAction) and action.impl_source is FileEditSource.LLM_BASED_EDIT


class ModelEditor:
    """Carries out these edits. `add_spending` stores what a call cost for the limits of the day."""

    def __init__(
        self, runtime: Runtime, draft_model: DraftModel, add_spending: Callable[[Spent], Awaitable[None]]
    ) -> None:
        self._runtime = runtime
        self._draft_model = draft_model
        self._add_spending = add_spending

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """As `Executor.execute`. Cancelling stops the call of the model, and leaves the file as it was."""
        assert isinstance(action, FileEditAction)
        path = os.path.join(self._runtime.working_dir, action.path)
        try:
            data = await self._runtime.read_file(path, MAX_BYTES)
            if data is None:
                create = FileEditAction(path=path, command="create", file_text=action.content)
                return await self._runtime.execute(create, action_id, on_frame)
            text = data.decode()
        except (UsageError, UnicodeDecodeError) as error:
            why = "it is not UTF-8 text." if isinstance(error, UnicodeDecodeError) else str(error)
            return ErrorObservation(content=NO_FILE.format(path=path, why=why))
        lines = _split_lines(text.replace("\r\n", "\n"))
        start, end = _range(action, len(lines))
        if end - start > MAX_LINES:
            return ErrorObservation(content=TOO_LONG.format(start=start + 1, end=end, count=end - start))
        if not 0 <= start <= end:
            why = f"its {len(lines)} lines have no range {action.start} to {action.end}."
            return ErrorObservation(content=NO_FILE.format(path=path, why=why))
        if action.start == APPEND:
            written, metrics = action.content, None
        else:
            answer = await self._new_lines("".join(lines[start:end]), action, action_id, on_frame)
            if isinstance(answer, ErrorObservation):
                return answer
            written, metrics = answer
        if await self._read_again(path) != data:
            return ErrorObservation(content=NOT_MADE.format(path=path, why=CHANGED))
        if written and not written.endswith("\n"):
            written += "\n"
        old = "".join(lines)
        if start == len(lines) and old and not old.endswith("\n"):
            start, written = start - 1, f"{lines[-1]}\n{written}"  # text is appended on a line of its own
        new = "".join([*lines[:start], written, *lines[end:]])
        if new == old:
            text = NOT_MADE.format(path=path, why="the new lines are the same as the old ones.")
            return ErrorObservation(content=text)
        write = FileWriteAction(path=path, content=written, start=start, end=end)
        done = await self._runtime.execute(write, action_id, on_frame)
        return _edited(path, old, new, metrics) if isinstance(done, FileWriteObservation) else done

    async def _read_again(self, path: str) -> bytes | None:
        try:
            return await self._runtime.read_file(path, MAX_BYTES)
        except UsageError:  # it has become too long, or something else than a file
            return None

    async def _new_lines(
        self, old: str, action: FileEditAction, action_id: int, on_frame: FrameSink
    ) -> tuple[str, LLMMetrics] | ErrorObservation:
        """Ask the model for the new lines; also what that cost."""
        fence = "`" * max([3, *(len(run) + 1 for run in _RUNS.findall(old + action.content))])
        request = (
            f"The lines of {action.path}:\n{fence}\n{old}{fence}\n\nThe draft:\n{fence}\n{action.content}\n{fence}"
        )
        messages = [
            {"role": "system", "content": INSTRUCTIONS.format(fence=fence)},
            {"role": "user", "content": request},
        ]
        metrics = LLMMetrics()

        def only_statuses(frame: Frame) -> None:
            """Pass on retries; the text of the answer is no message of the agent."""
            if isinstance(frame, Status):
                on_frame(frame)

        try:
            async with self._draft_model() as llm:
                for _attempt in range(ATTEMPTS):
                    response = await llm.complete(LLMRequest(messages), only_statuses, action_id)
                    metrics = add_response(metrics, response)
                    tokens = response.usage.prompt_tokens + response.usage.completion_tokens
                    await self._add_spending(Spent(1, response.cost or 0.0, int(response.cost is None), tokens))
                    if (text := _code_block(response.text, fence)) is not None:
                        return text, metrics
                    messages += [
                        {"role": "assistant", "content": response.text},
                        {"role": "user", "content": AGAIN.format(fence=fence)},
                    ]
        except (ModelError, ConfigurationError) as error:
            return ErrorObservation(content=NOT_MADE.format(path=action.path, why=error))
        why = f"{ATTEMPTS} answers of the model had no code block. Use str_replace_editor."
        return ErrorObservation(content=NOT_MADE.format(path=action.path, why=why))


def _edited(path: str, old: str, new: str, metrics: LLMMetrics | None) -> FileEditObservation:
    """The observation of an edit that was made."""
    diff = "".join(difflib.unified_diff(_split_lines(old), _split_lines(new), path, path))
    is_small = max(len(old), len(new)) <= MAX_WHOLE_CHARS
    return FileEditObservation(
        content=f"The file {path} has been edited:\n{diff}",
        path=path,
        prev_exist=True,
        old_content=old if is_small else None,
        new_content=new if is_small else None,
        impl_source=FileEditSource.LLM_BASED_EDIT,
        diff=diff,
        llm_metrics=metrics,
    )


def _range(action: FileEditAction, count: int) -> tuple[int, int]:
    """The range as positions between lines, of which the file has `count`."""
    if action.start == APPEND:
        return count, count
    end = count if action.end == APPEND else min(action.end, count)
    return max(action.start, 1) - 1, end


def _split_lines(text: str) -> list[str]:
    """Split at line feeds alone, as the editor numbers lines; `splitlines` would also split at form feeds."""
    return list(StringIO(text, newline="\n"))


def _code_block(answer: str, fence: str) -> str | None:
    """The text in the code block of an answer; None if there is none or it does not end."""
    lines = _split_lines(answer.replace("\r\n", "\n"))
    fences = [at for at, line in enumerate(lines) if line.startswith(fence)]
    return "".join(lines[fences[0] + 1 : fences[-1]]) if len(fences) > 1 else None
