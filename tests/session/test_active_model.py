"""Mind: which model answers, and who is let go of when another takes its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from core.errors import ConfigurationError
from core.protocols import LLM, Agent
from core.session.active_model import Mind


@dataclass
class Model:
    """A model by name only."""

    name: str
    closed: int = 0

    async def aclose(self) -> None:
        self.closed += 1


@dataclass
class Asking:
    """An agent that knows whom it asks."""

    llm: Any


def mind(first: Model) -> tuple[Mind, list[Model]]:
    made: list[Model] = []

    async def make(name: str) -> LLM:
        if name == "gone":
            raise ConfigurationError("There is no such model.")
        made.append(Model(name))
        return cast("LLM", made[-1])

    async def blob(*given: object) -> None:
        """There are no pictures."""

    return Mind(cast("LLM", first), make, lambda llm: cast("Agent", Asking(llm)), cast("Any", blob)), made


async def test_another_model_or_the_same_one_anew_takes_its_place_and_the_one_before_is_handed_over() -> None:
    first = Model("first")
    thinking, made = mind(first)
    assert thinking.model == "first"
    assert cast("Asking", thinking.agent()).llm.name == "first"
    assert await thinking.take() is cast("LLM", first)
    assert thinking.model == "first"
    assert await thinking.take("other") is cast("LLM", made[0])
    assert (thinking.model, cast("Asking", thinking.agent()).llm.name) == ("other", "other")
    await thinking.aclose()
    assert [model.closed for model in (first, *made)] == [0, 0, 1]


async def test_a_model_that_cannot_be_had_leaves_the_one_before() -> None:
    thinking, _ = mind(Model("first"))
    with pytest.raises(ConfigurationError):
        await thinking.take("gone")
    assert thinking.model == "first"
