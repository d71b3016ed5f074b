"""Titles of conversations that a model suggests."""

from __future__ import annotations

import asyncio

import pytest

from core.errors import ConfigurationError, StoreError
from core.events import TokenUsage
from core.llm.title_suggestion import MESSAGE_CHARS, Suggestion, clean_title, first_line, suggest_title
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse
from core.store.writer import Spent


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("  look at it\nand more", "look at it"),
        ("", "Untitled"),
        (" \n ", "Untitled"),
        ("x" * 50, "x" * 50),
        ("x" * 51, "x" * 50),
        ("x" * 49 + " y", "x" * 49),
    ],
)
def test_first_line_of_a_message_is_its_title(message: str, title: str) -> None:
    assert first_line(message) == title


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Repair of the build", "Repair of the build"),
        ("\n \n Second\nthird", "Second"),
        ('"Quoted"', "Quoted"),
        ("Title: **Named**", "Named"),
        ("a\tb\x1b[31mc", "a b [31mc"),
        ("x" * 50, "x" * 50),
        ("x" * 51, "x" * 50),
        ("x" * 49 + " yy", "x" * 49),
        ("x" * 50 + " y", "x" * 50),
        ("ab " * 20, "ab " * 16 + "ab"),
        ("ab " * 66, "ab " * 16 + "ab"),
        ("a " * 100, "a " * 24 + "a"),
        ("a " * 100 + "b", ""),
        ("<title>", ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_suggested_title_is_one_printable_line_cut_between_words(answer: str, title: str) -> None:
    assert clean_title(answer) == title


class Naming:
    """A model that answers with a response or raises."""

    name = "naming"

    def __init__(self, answer: LLMResponse | Exception) -> None:
        self._answer = answer
        self.asked: list[LLMRequest] = []
        self.is_closed = False

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        assert cause == -1, "what it says is no event's"
        self.asked.append(request)
        await asyncio.sleep(0)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def aclose(self) -> None:
        self.is_closed = True


async def suggested(llm: Naming, message: str = "go") -> Suggestion:
    async def made() -> LLM:
        return llm

    return await suggest_title(made, message)


async def test_model_is_called_once_with_the_start_of_the_message() -> None:
    llm = Naming(LLMResponse("1", "Named"))
    await suggested(llm, "x" * MESSAGE_CHARS + "y")
    (request,) = llm.asked
    system, user = request.messages
    assert (system["role"], user["role"]) == ("system", "user")
    assert "at most 50 characters" in system["content"]
    assert user["content"] == "x" * MESSAGE_CHARS
    assert llm.is_closed


@pytest.mark.parametrize(("cost", "known", "unpriced"), [(0.5, 0.5, 0), (None, 0.0, 1), (0.0, 0.0, 0)])
async def test_suggestion_includes_its_cost(cost: float | None, known: float, unpriced: int) -> None:
    usage = TokenUsage(prompt_tokens=7, completion_tokens=2)
    suggestion = await suggested(Naming(LLMResponse("1", "Named", usage=usage, cost=cost)))
    seconds = suggestion.spent.seconds
    assert suggestion == Suggestion("Named", Spent(1, known, unpriced, 9, seconds))
    assert 0 < seconds < 60


async def test_failing_model_suggests_nothing_and_is_closed() -> None:
    llm = Naming(StoreError("down"))
    assert await suggested(llm) == Suggestion()
    assert llm.is_closed


async def test_slow_or_missing_model_suggests_nothing() -> None:
    assert await suggested(Naming(TimeoutError())) == Suggestion()

    async def none() -> LLM:
        raise ConfigurationError("There is no such model.")

    assert await suggest_title(none, "go") == Suggestion()
