"""The order of what happens to an action, for each place where one is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.actions.middleware import ActionPipeline, ConversationParts
from core.actions.output import INTERRUPTED, INTERRUPTED_EXIT
from core.actions.table import ActionTable, Place, Row
from core.controller.exit_reasons import RUNTIME_UNAVAILABLE
from core.errors import RuntimeUnavailableError
from core.events import (
    Action,
    ActionConfirmationStatus,
    BrowseURLAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    FileReadAction,
    Judged,
    Observation,
    UserRejectObservation,
)
from core.protocols import FrameSink
from core.stream import Frames
from core.trust.hook_file import Moment
from tests.actions.pipelines import stored
from tests.doubles import ScriptedRuntime

PAGE = BrowseURLAction(url="http://a/")


class Parts:
    """All parts of a conversation, and the handler; each notes when it is called."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.calls: list[str] = []
        self.denies = ""
        self.user = self.browser = self.turns = self.hooks = self.secrets = self
        self.terminal = SimpleNamespace(wait_for_return=self._wait_for_terminal)
        self.frames = Frames()

    async def wait_for_return(self) -> None:
        self.calls.append("browser is free")

    async def _wait_for_terminal(self) -> None:
        self.calls.append("terminal is free")

    async def ready(self, envelope: object = None) -> None:
        self.calls.append("setup" if envelope is None else "checkpoint")

    async def before(self, action: Action) -> str:
        self.calls.append("hooks before")
        return self.denies

    async def run(self, moment: Moment, action: Action, observation: Observation) -> None:
        assert moment is Moment.AFTER_ACTION
        self.calls.append("hooks after")

    async def agent_step(
        self, action: Action, action_id: int, carry_out: Callable[[], Awaitable[Observation]]
    ) -> Observation:
        self.calls.append("browser step")
        return await carry_out()

    async def around(self, action: Action, work: Callable[[], Awaitable[Observation]]) -> Observation:
        self.calls.append("secrets")
        return await work()

    def row_of(self, action: Action) -> Row:
        return Row(Action, self.place, self.handle)

    async def handle(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        self.calls.append("handler")
        return CmdOutputObservation(command="", content=str(action_id))

    @property
    def pipeline(self) -> ActionPipeline:
        return ActionPipeline(cast("ActionTable", self), cast("ConversationParts", self))


BEGIN = ["browser is free", "setup", "checkpoint", "terminal is free"]


@pytest.mark.parametrize(
    ("place", "calls"),
    [
        (Place.CONVERSATION, ["handler"]),
        (Place.HANDLOOM, ["terminal is free", "hooks before", "handler", "hooks after", "terminal is free"]),
        (
            Place.SERVER,
            ["browser is free", "checkpoint", "terminal is free", "hooks before", "handler", "hooks after",
             "terminal is free"],
        ),
        (Place.SANDBOX, [*BEGIN, "hooks before", "secrets", "handler", "hooks after", "terminal is free"]),
    ],
)  # fmt: skip
async def test_actions_pass_through_middleware_in_order(place: Place, calls: list[str]) -> None:
    parts = Parts(place)
    assert (await parts.pipeline.execute(stored(CmdRunAction(command="ls"), 7))).content == "7"
    assert parts.calls == calls


async def test_browser_action_waits_for_user_before_hooks() -> None:
    parts = Parts(Place.SANDBOX)
    await parts.pipeline.execute(stored(PAGE, 7))
    assert parts.calls == [
        *BEGIN, "browser step", "hooks before", "secrets", "handler", "hooks after", "terminal is free",
    ]  # fmt: skip


async def test_denied_action_reaches_no_handler() -> None:
    parts = Parts(Place.SANDBOX)
    parts.denies = "No."
    observation = await parts.pipeline.execute(stored(CmdRunAction(command="ls"), 7))
    assert observation == UserRejectObservation(content="A hook denied this action: No.")
    assert parts.calls == [*BEGIN, "hooks before", "terminal is free"]


def pipeline_with(runtime: ScriptedRuntime) -> ActionPipeline:
    """A pipeline whose handler is this runtime."""
    parts = Parts(Place.SANDBOX)
    table = ActionTable(runtime, cast("Any", None))
    return ActionPipeline(table, cast("ConversationParts", parts))


@pytest.mark.parametrize(
    ("error", "id"),
    [(RuntimeUnavailableError("Gone."), RUNTIME_UNAVAILABLE), (ValueError("Gone."), "RUNTIME$FAILED")],
)
async def test_runtime_error_becomes_observation(error: Exception, id: str) -> None:
    observation = await pipeline_with(ScriptedRuntime(lambda action: error)).execute(stored(PAGE, 1))
    assert isinstance(observation, ErrorObservation)
    assert (observation.error_id, "Gone." in observation.content) == (id, True)


@pytest.mark.parametrize("action", [CmdRunAction(command="make"), FileReadAction(path="a")], ids=["command", "file"])
async def test_interrupted_action_gets_observation_with_output_so_far(action: Action) -> None:
    runtime = ScriptedRuntime(lambda action: None)
    running = asyncio.create_task(pipeline_with(runtime).execute(stored(action, 1)))
    await runtime.started.wait()
    running.cancel()
    observation = await running
    if isinstance(action, CmdRunAction):
        metadata = CmdOutputMetadata(exit_code=INTERRUPTED_EXIT, suffix=INTERRUPTED)
        assert observation == CmdOutputObservation(command="make", content="partly", metadata=metadata)
    else:
        expected = ErrorObservation(content="The user interrupted this action.", error_id="AGENT_ERROR$INTERRUPTED")
        assert observation == expected


async def test_approved_action_runs_as_confirmed_without_its_judgement() -> None:
    runtime = ScriptedRuntime()
    waited = ActionConfirmationStatus.AWAITING_CONFIRMATION
    action = CmdRunAction(command="ls", confirmation_state=waited, judgement=Judged(verdict="ask", rule="r"))
    await pipeline_with(runtime).execute(stored(action, 1))
    assert runtime.executed == [CmdRunAction(command="ls")]
