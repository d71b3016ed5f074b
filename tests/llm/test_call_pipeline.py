"""The call pipeline: its steps run in the listed order, whatever the order in which they were added."""

from __future__ import annotations

import json
from pathlib import Path

from core.errors import ModelError, ModelErrorKind
from core.llm.budget import Budget, KeepBudget
from core.llm.call_pipeline import ORDER, CallPipeline
from core.llm.cassette import RecordCalls, Recorder, Scrubber
from core.llm.inline_images import LOST, InlineImages
from core.llm.permits import KeepPermits, Permits
from core.llm.prompted_tools import PromptedTools
from core.llm.router import Helpers, Router
from core.protocols import FrameSink, LLMRequest, LLMResponse
from core.store.blobs import Blob, BlobRef
from tests.doubles import ignore
from tests.llm.test_inline_images import RED

REQUEST = LLMRequest(
    messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": str(RED.ref)}}]}],
    tools=[{"type": "function", "function": {"name": "think", "description": "", "parameters": {}}}],
)


class Model:
    """A model that notes its requests, and has no tools."""

    def __init__(self, name: str) -> None:
        self.name, self.asked, self.is_closed = name, list[LLMRequest](), False

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        self.asked.append(request)
        if request.tools:
            raise ModelError(ModelErrorKind.NO_TOOLS, "It has no tools.")
        return LLMResponse("r", "yes")

    async def aclose(self) -> None:
        self.is_closed = True


async def gone(ref: BlobRef) -> Blob | None:
    """No picture is kept."""


async def test_steps_run_in_the_listed_order(tmp_path: Path) -> None:
    chosen, fallback = Model("a/x"), Model("b/y")
    recorder = Recorder(tmp_path / "cassette", "a/x")
    kept = KeepBudget(Budget(None), chosen)
    router = Router(chosen, Helpers(fallbacks=[fallback]))
    permit = KeepPermits(Permits(1), "a/x")
    made = CallPipeline(chosen, kept, permit, router, recorder.thread(Scrubber("/w", {})))
    llm = CallPipeline(made, InlineImages(gone), PromptedTools("a/x"))
    assert [type(step) for step in llm.steps] == list(ORDER)
    assert list(ORDER) == [PromptedTools, InlineImages, RecordCalls, Router, KeepPermits, KeepBudget]
    assert (await llm.complete(REQUEST, ignore, 1)).text == "yes"
    assert [bool(request.tools) for request in chosen.asked] == [True, False]
    _, *exchanges = [json.loads(line) for line in (tmp_path / "cassette").read_text().splitlines()]
    assert len(exchanges) == 2, "the record has the call with tools and the one without"
    assert LOST in json.dumps(exchanges[1])
    await llm.aclose()
    assert chosen.is_closed
    assert fallback.is_closed
