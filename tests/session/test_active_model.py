"""The active model: which model answers, and that the one before it is closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from core.errors import ConfigurationError, ModelError, ModelErrorKind, UsageError
from core.llm.model_catalogue import Capabilities
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.settings import LLMSettings
from core.protocols import LLM, Agent
from core.session.active_model import ActiveModel


@dataclass
class Model:
    """A model by name only."""

    name: str
    closed: int = 0

    async def aclose(self) -> None:
        self.closed += 1


class Hosted(HostedLLM):
    """A model of a provider that says whether it reads pictures, or fails when it is asked."""

    def __init__(self, vision: bool | ModelError) -> None:
        super().__init__(ModelHost({}), "first", LLMSettings())
        self.vision = vision

    async def capabilities(self) -> Capabilities:
        if isinstance(self.vision, ModelError):
            raise self.vision
        return Capabilities(vision=self.vision)


@dataclass
class Asking:
    """An agent that knows which model it asks."""

    llm: Any


@dataclass
class Record:
    """The names of models that were stored."""

    models: list[str] = field(default_factory=list)

    async def set_model(self, name: str) -> None:
        self.models.append(name)


def active(first: Model | Hosted, record: Record) -> tuple[ActiveModel, list[Model]]:
    made: list[Model] = []

    async def make(name: str) -> LLM:
        if name == "gone":
            raise ConfigurationError("There is no such model.")
        made.append(Model(name))
        return cast("LLM", made[-1])

    async def blob(*given: object) -> None:
        """There are no pictures."""

    def make_agent(llm: LLM) -> Agent:
        return cast("Agent", Asking(llm))

    return ActiveModel(cast("LLM", first), make, make_agent, cast("Any", blob), cast("Any", record)), made


async def test_switching_closes_the_previous_model() -> None:
    first, record = Model("first"), Record()
    model, made = active(first, record)
    agent = model.make_agent()
    assert cast("Asking", agent).llm.name == model.name == "first"
    await model.aclose()
    await model.reopen()
    assert (model.name, record.models) == ("first", [])
    assert model.agent is not agent, "the agent asks the reopened model"
    await model.switch("other")
    assert (model.name, cast("Asking", model.agent).llm.name, record.models) == ("other", "other", ["other"])
    assert [one.closed for one in (first, *made)] == [1, 1, 0]


async def test_failed_switch_keeps_the_previous_model() -> None:
    first, record = Model("first"), Record()
    model, _ = active(first, record)
    agent = model.make_agent()
    with pytest.raises(ConfigurationError):
        await model.switch("gone")
    assert (model.name, model.agent, first.closed, record.models) == ("first", agent, 0, [])


async def test_helper_is_the_same_model_or_another_that_is_closed_afterwards() -> None:
    first = Model("first")
    model, made = active(first, Record())
    for name in ("", "first"):
        async with model.helper(name) as helper:
            assert helper is cast("LLM", first)
    async with model.helper("other") as helper:
        assert helper.name == "other"
        assert made[0].closed == 0
    assert (first.closed, made[0].closed) == (0, 1)


async def test_pictures_are_refused_only_for_a_model_that_is_known_not_to_read_them() -> None:
    for vision in (True, ModelError(ModelErrorKind.CONNECTION, "It is away.")):
        model, _ = active(Hosted(vision), Record())
        await model.check_images()
    model, _ = active(Hosted(False), Record())
    with pytest.raises(UsageError, match="first"):
        await model.check_images()
