"""A model without tool calls gets tools in text after the first refusal, and the user is told once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.agent.tools import CODEACT_TOOLS
from core.errors import ModelError, ModelErrorKind
from core.events import Frame, Status, TokenDelta
from core.llm.call_pipeline import CallPipeline
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.prompted_tools import TOOLS_STATUS, PromptedTools, _CallFilter
from core.llm.scripted_model import ScriptedLLM
from core.llm.settings import LLMSettings
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse
from core.status_messages import RETRY_STATUS
from tests.doubles import write_script
from tests.openai_server import KEY, OpenAIServer, answers, fails

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUEST = LLMRequest(
    [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Look."}],
    [tool.schema() for tool in CODEACT_TOOLS],
)
CALL = "I look.\n<function=execute_bash>\n<parameter=command>ls</parameter>\n"


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host() -> AsyncIterator[ModelHost]:
    running = ModelHost({"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY, "DEEPSEEK_API_KEY": KEY})
    yield running
    await running.aclose()


async def ask(llm: LLM) -> tuple[LLMResponse, list[Frame]]:
    frames: list[Frame] = []
    return await llm.complete(REQUEST, frames.append, 5), frames


def hosted(host: ModelHost, server: OpenAIServer, model: str = "openai/test", **settings: str) -> CallPipeline:
    fields = {"api_base": server.base_url, "num_retries": 1, **settings}
    return CallPipeline(HostedLLM(host, model, LLMSettings.model_validate(fields)), PromptedTools(model))


def announced(frames: list[Frame]) -> int:
    return sum(isinstance(frame, Status) and frame.id == TOOLS_STATUS for frame in frames)


def streamed(frames: list[Frame]) -> str:
    return "".join(frame.text for frame in frames if isinstance(frame, TokenDelta))


async def test_provider_that_refuses_tools_gets_them_in_the_prompt(host: ModelHost, server: OpenAIServer) -> None:
    server.then(fails(400, message="registry.ollama.ai/library/gemma does not support tools"))
    server.then(answers(CALL), answers(CALL))
    llm = hosted(host, server)
    response, frames = await ask(llm)
    assert (response.text, response.tool_calls[0].name) == ("I look.", "execute_bash")
    assert response.tool_calls[0].arguments == '{"command": "ls"}'
    assert announced(frames) == 1
    assert streamed(frames).strip() == "I look.", "the text of a call is not shown"
    _, frames = await ask(llm)
    assert announced(frames) == 0
    refused, first, second = (exchange.body for exchange in server.exchanges)
    assert "tools" in refused
    assert "tools" not in first
    assert "tools" not in second
    assert first["stop"] == ["</function"]
    assert "## execute_bash" in first["messages"][0]["content"]


@pytest.mark.parametrize(
    ("model", "tools"), [("openai/test", "no"), ("deepseek/deepseek-reasoner", "auto")], ids=["setting", "table"]
)
async def test_setting_or_table_avoids_the_first_refusal(
    host: ModelHost, server: OpenAIServer, model: str, tools: str
) -> None:
    server.then(answers(CALL))
    response, frames = await ask(hosted(host, server, model, tools=tools))
    assert announced(frames) == 1
    assert response.tool_calls[0].name == "execute_bash"
    (exchange,) = server.exchanges
    assert "tools" not in exchange.body


async def test_setting_overrides_the_table(host: ModelHost, server: OpenAIServer) -> None:
    server.then(answers("", [("execute_bash", '{"command": "ls"}')]))
    response, frames = await ask(hosted(host, server, "deepseek/deepseek-reasoner", tools="yes"))
    assert announced(frames) == 0
    assert response.tool_calls[0].arguments == '{"command": "ls"}'


async def test_other_errors_are_raised(host: ModelHost, server: OpenAIServer) -> None:
    server.then(fails(400, message="temperature is not good"))
    with pytest.raises(ModelError) as caught:
        await ask(hosted(host, server))
    assert caught.value.kind is ModelErrorKind.BAD_REQUEST
    assert len(server.exchanges) == 1


async def test_scripted_model_can_be_without_tools(tmp_path: Path) -> None:
    name = write_script(tmp_path, [{"text": CALL}])
    path = Path(name.partition(":")[2])
    path.write_text("tools: false\n" + path.read_text())
    response, frames = await ask(CallPipeline(ScriptedLLM(path), PromptedTools("scripted")))
    assert announced(frames) == 1
    assert response.tool_calls[0].name == "execute_bash"


class InPieces:
    """A model without tools that streams an answer in pieces of one character."""

    name = "pieces"

    def __init__(self, text: str) -> None:
        self.text = text

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        if request.tools:
            raise ModelError(ModelErrorKind.NO_TOOLS, "none")
        for piece in self.text:
            on_frame(TokenDelta(cause, piece))
        on_frame(TokenDelta(cause, "hm", "reasoning"))
        return LLMResponse("r", self.text)

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a <function=x><parameter=y>z", "a "), ("a <func and b", "a <func and b"), ("<<function=x>", "<"), ("", "")],
)
async def test_text_is_streamed_until_the_call_begins(text: str, shown: str) -> None:
    _, frames = await ask(CallPipeline(InPieces(text), PromptedTools("pieces")))
    assert streamed(frames) == shown + "hm"


async def test_text_is_streamed_from_the_start_after_a_retry() -> None:
    frames: list[Frame] = []
    shows = _CallFilter(frames.append)
    for frame in (TokenDelta(5, "I <function="), Status("info", RETRY_STATUS, "again"), TokenDelta(5, "I look")):
        shows(frame)
    assert [frame.text for frame in frames if isinstance(frame, TokenDelta)] == ["I ", "I look"]
