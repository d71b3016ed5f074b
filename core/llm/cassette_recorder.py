"""Records what models are asked and answer into a cassette, an exchange a line, as soon as it is over.

A Recorder is one file, which it makes; RecordCalls is one conversation with a model, a thread of the file. Secrets
are taken out before anything is written. A call that was cancelled is no exchange. Where the file cannot be written any
more, that is told once, and the work goes on without a record.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

from core.errors import ConfigurationError, ModelError
from core.events import Status
from core.llm.cassette import (
    VERSION,
    Asked,
    Exchange,
    Header,
    RecordedAnswer,
    RecordedCall,
    RecordedError,
    Scrubber,
    request_after,
    to_line,
)
from core.protocols import Complete, FrameSink, LLMRequest, LLMResponse
from core.status_messages import NO_RECORD

RECORD_STATUS = "STATUS$RECORDING"


class Recorder:
    """A cassette that is being recorded."""

    def __init__(self, path: Path, model: str) -> None:
        """Make the file, for nobody else to read. Raises ConfigurationError where there is one or none can be made."""
        self._path = path
        self._before: Asked | None = None
        self._turn = asyncio.Lock()
        self._threads = itertools.count()
        self._ended = False
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(to_line(Header(cassette=VERSION, model=model)))
        except FileExistsError as error:
            raise ConfigurationError(
                f"{path} exists, and a record does not write over a file. Give --record another one, or remove it."
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"{path} cannot be written: {error.strerror}. Give --record another file."
            ) from error

    def thread(self, scrubber: Scrubber) -> RecordCalls:
        """The step that records the calls of one conversation, as a thread of its own in the file."""
        return RecordCalls(self, scrubber, next(self._threads))

    async def add(self, asked: Asked, outcome: RecordedAnswer | RecordedError, thread: int) -> str:
        """Write an exchange down. Answers what is wrong with that, the first time, for people."""
        async with self._turn:
            if self._ended:
                return ""
            answer = outcome if isinstance(outcome, RecordedAnswer) else None
            error = outcome if isinstance(outcome, RecordedError) else None
            exchange = Exchange(thread=thread, request=request_after(self._before, asked), answer=answer, error=error)
            try:
                await asyncio.to_thread(self._append, to_line(exchange))
            except OSError as failure:
                self._ended = True
                return NO_RECORD.format(path=self._path, error=failure.strerror)
            self._before = asked
            return ""

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)


class RecordCalls:
    """A step of the model call: records the request and the answer or the error."""

    def __init__(self, recorder: Recorder, scrubber: Scrubber, thread: int) -> None:
        self._recorder, self._scrubber, self._thread = recorder, scrubber, thread

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`; written down when it is over, also when it failed."""
        asked = self._scrubber.asked(request)
        try:
            response = await next(request, on_frame, cause)
        except ModelError as error:
            failure = RecordedError(kind=error.kind, message=self._scrubber.text(str(error)))
            await self._add(asked, failure, on_frame)
            raise
        await self._add(asked, recorded_answer(response, self._scrubber), on_frame)
        return response

    async def _add(self, asked: Asked, outcome: RecordedAnswer | RecordedError, on_frame: FrameSink) -> None:
        if wrong := await self._recorder.add(asked, outcome, self._thread):
            on_frame(Status("error", RECORD_STATUS, wrong))


def recorded_answer(response: LLMResponse, scrubber: Scrubber) -> RecordedAnswer:
    """An answer as it is written."""
    usage, clean = response.usage, scrubber.text
    return RecordedAnswer(
        id=response.id,
        model=usage.model,
        text=clean(response.text),
        reasoning=clean(response.reasoning),
        tool_calls=[
            RecordedCall(id=call.id, name=call.name, arguments=clean(call.arguments)) for call in response.tool_calls
        ],
        finish_reason=response.finish_reason,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        context_window=usage.context_window,
        cost=response.cost,
    )
