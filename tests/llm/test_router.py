"""Which model answers: the chosen one or a substitute, always with a notice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import Frame, Status, TokenUsage
from core.llm.call_pipeline import CallPipeline
from core.llm.model_catalogue import Capabilities
from core.llm.model_host_client import FailedCall, HostedLLM, ModelHost
from core.llm.router import COOLDOWN_S, FAILS_OVER, ROUTE_STATUS, Helpers, Router, helpers_of
from core.llm.settings import LLMSettings
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse

TEXT = LLMRequest([{"role": "user", "content": "hi"}])
PICTURE = LLMRequest([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}])


@dataclass
class Model:
    """Raises these errors in turn, then answers with its name."""

    name: str
    errors: list[ModelError] = field(default_factory=list)
    tokens: int = 0
    asked: int = 0
    is_closed: bool = False

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return LLMResponse("id", self.name, usage=TokenUsage(prompt_tokens=self.tokens))

    async def aclose(self) -> None:
        self.is_closed = True


class Known(HostedLLM):
    """A hosted model with capabilities of the test's choice, which answers like Model."""

    def __init__(self, model: Model, capabilities: Capabilities) -> None:
        super().__init__(ModelHost({}), model.name, LLMSettings())
        self.model, self.known = model, capabilities

    async def capabilities(self) -> Capabilities:
        return self.known

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        return await self.model.complete(request, on_frame, cause)


class Asking:
    """A router on a clock of the test, and its notices."""

    def __init__(self, chosen: LLM, **helpers: Any) -> None:
        self.now = 1000.0
        self.router = CallPipeline(chosen, Router(chosen, Helpers(**helpers), lambda: self.now))
        self.told: list[str] = []

    async def ask(self, request: LLMRequest = TEXT) -> str:
        def note(frame: Frame) -> None:
            assert isinstance(frame, Status)
            assert frame.id == ROUTE_STATUS
            self.told.append(frame.message)

        return (await self.router.complete(request, note, 1)).text


def failing(kind: ModelErrorKind, times: int = 1) -> list[ModelError]:
    return [ModelError(kind, f"It has {kind}.") for _ in range(times)]


@pytest.mark.parametrize("kind", sorted(FAILS_OVER))
async def test_fallback_answers_with_a_notice(kind: ModelErrorKind) -> None:
    asking = Asking(Model("a/x", failing(kind)), fallbacks=[Model("b/y"), Model("c/z")])
    assert await asking.ask() == "b/y"
    assert asking.told == [f"a/x failed; b/y answers instead. It has {kind}."]
    assert asking.router.name == "a/x"


@pytest.mark.parametrize("kind", sorted(set(ModelErrorKind) - FAILS_OVER))
async def test_errors_that_the_user_must_fix_use_no_fallback(kind: ModelErrorKind) -> None:
    fallback = Model("b/y")
    asking = Asking(Model("a/x", failing(kind)), fallbacks=[fallback])
    with pytest.raises(ModelError, match=f"It has {kind}") as caught:
        await asking.ask()
    assert (caught.value.kind, fallback.asked, asking.told) == (kind, 0, [])


async def test_partial_answer_is_not_restarted_by_a_fallback() -> None:
    fallback = Model("b/y")
    broken = FailedCall(ModelErrorKind.CONNECTION, "It broke off.", shown=True)
    with pytest.raises(ModelError, match="It broke off"):
        await Asking(Model("a/x", [broken]), fallbacks=[fallback]).ask()
    assert fallback.asked == 0


async def test_failed_model_is_paused_and_used_again() -> None:
    chosen = Model("a/x", failing(ModelErrorKind.SERVER))
    asking = Asking(chosen, fallbacks=[Model("b/y")])
    assert [await asking.ask(), await asking.ask()] == ["b/y", "b/y"]
    assert chosen.asked == 1
    assert asking.told[-1] == "a/x failed recently; b/y answers instead."
    asking.now += COOLDOWN_S + 1
    assert await asking.ask() == "a/x"
    assert asking.told[-1] == ""


async def test_all_errors_are_reported_if_every_model_fails() -> None:
    asking = Asking(
        Model("a/x", failing(ModelErrorKind.SERVER)), fallbacks=[Model("b/y", failing(ModelErrorKind.AUTHENTICATION))]
    )
    with pytest.raises(ModelError) as caught:
        await asking.ask()
    assert str(caught.value) == "a/x: It has server. b/y: It has authentication."


@pytest.mark.parametrize(
    ("sees", "request_", "answers"),
    [(False, PICTURE, "v/v"), (None, PICTURE, "v/v"), (True, PICTURE, "a/x"), (False, TEXT, "a/x")],
)
async def test_vision_model_answers_while_a_picture_is_visible(
    sees: bool | None, request_: LLMRequest, answers: str
) -> None:
    asking = Asking(Known(Model("a/x"), Capabilities(vision=sees)), vision=Model("v/v"))
    assert await asking.ask(request_) == answers
    assert asking.told == (["a/x does not support images; v/v answers instead."] if answers == "v/v" else [])


async def test_larger_model_answers_if_the_conversation_does_not_fit() -> None:
    asking = Asking(Known(Model("a/x"), Capabilities(1000)), large=Model("l/l"))
    assert await asking.ask(LLMRequest([{"role": "user", "content": "x" * 3700}])) == "a/x"
    assert await asking.ask(LLMRequest([{"role": "user", "content": "x" * 3900}])) == "l/l"
    assert asking.told == ["The conversation no longer fits a/x; l/l answers instead."]
    assert await asking.ask() == "a/x", "it was condensed"


async def test_conversation_length_is_learned_from_the_provider() -> None:
    asking = Asking(Known(Model("a/x", tokens=900), Capabilities(1000)), large=Model("l/l"))
    assert await asking.ask(LLMRequest([{"role": "user", "content": "x" * 900}])) == "a/x"
    assert await asking.ask(LLMRequest([{"role": "user", "content": "x" * 1200}])) == "l/l"


async def test_answer_to_a_picture_does_not_change_the_length_estimate() -> None:
    asking = Asking(Known(Model("a/x", tokens=900), Capabilities(1000, vision=True)), large=Model("l/l"))
    assert await asking.ask(PICTURE) == "a/x"
    assert await asking.ask(LLMRequest([{"role": "user", "content": "x" * 1200}])) == "a/x"


async def test_answer_of_a_paused_model_ends_its_pause() -> None:
    chosen = Known(Model("a/x", failing(ModelErrorKind.SERVER)), Capabilities(vision=False))
    vision, first = Model("v/v", failing(ModelErrorKind.SERVER)), Model("b/y", failing(ModelErrorKind.SERVER))
    second = Model("c/z", failing(ModelErrorKind.SERVER, 2))
    asking = Asking(chosen, vision=vision, fallbacks=[first, second])
    with pytest.raises(ModelError, match=r"a/x: It has server\. b/y: It has server\. c/z: It has server\."):
        await asking.ask()
    assert await asking.ask(PICTURE) == "b/y", "the others failed before it was asked"
    assert await asking.ask(TEXT) == "b/y", "only the others rest now"
    assert chosen.model.asked == 1


async def test_call_that_does_not_fit_goes_to_the_larger_model_once() -> None:
    chosen, large = Model("a/x", failing(ModelErrorKind.CONTEXT_WINDOW)), Model("l/l")
    asking = Asking(chosen, large=large)
    assert await asking.ask() == "l/l"
    large.errors, chosen.errors = failing(ModelErrorKind.CONTEXT_WINDOW), failing(ModelErrorKind.CONTEXT_WINDOW)
    with pytest.raises(ModelError) as caught:
        await asking.ask()
    assert (caught.value.kind, large.asked) == (ModelErrorKind.CONTEXT_WINDOW, 2), "the conversation is condensed then"


async def test_closing_closes_every_model() -> None:
    models = [Model(name) for name in "abcd"]
    await CallPipeline(models[0], Router(models[0], Helpers(models[1], models[2], [models[3]]))).aclose()
    assert all(model.is_closed for model in models)


def test_model_without_helpers_is_returned_and_missing_helpers_are_reported() -> None:
    def make(name: str) -> LLM:
        if name == "b/none":
            raise ConfigurationError("b/none needs a key.")
        return Model(name)

    assert not helpers_of("a/x", LLMSettings(), make).all()
    assert not helpers_of("a/x", LLMSettings(vision_model="a/x", fallbacks=("a/x",)), make).all()
    helpers = helpers_of("a/x", LLMSettings(vision_model="v/v", large_model="l/l", fallbacks=("b/y",)), make)
    assert [model.name for model in helpers.all()] == ["v/v", "l/l", "b/y"]
    with pytest.raises(ConfigurationError, match=r"The fallback of a/x cannot be used\. b/none needs a key\."):
        helpers_of("a/x", LLMSettings(fallbacks=("b/none",)), make)


@pytest.mark.parametrize(("vision", "reads"), [(True, True), (False, False), (None, False)])
async def test_images_go_to_models_that_read_them(vision: bool | None, reads: bool) -> None:
    model = Known(Model("m"), Capabilities(vision=vision))
    assert await CallPipeline(model).reads_images() is reads
    other = Router(model, Helpers(vision=Model("seer")))
    assert await CallPipeline(model, other).reads_images()
