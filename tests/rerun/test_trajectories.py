"""Trajectories of OpenHands V0 run again in the folder of the run, with their edits."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import AgentState, Envelope, envelope_from_dict
from core.rerun.comparison import Outcome
from core.rerun.runner import Rerun, start_rerun
from core.settings.config import Settings
from core.store.conversations import NewConversation
from tests.rerun.runs import LONG_S, managing

CODE = "print('hello')\n"


def metadata(name: str, **arguments: Any) -> dict[str, Any]:
    """The call of a model, with its arguments in its answer only."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    answer = {"role": "assistant", "content": "", "tool_calls": [{"id": "toolu_1", "function": function}]}
    response = {"id": "chatcmpl-1", "choices": [{"message": answer}]}
    return {"function_name": name, "tool_call_id": "toolu_1", "model_response": response, "total_calls_in_response": 1}


def at(id: int, source: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": f"2025-01-27T22:44:{id:02d}.900854", "source": source, "message": "", **fields}


TRAJECTORY = [
    at(0, "environment", observation="agent_state_changed", content="", extras={"agent_state": "loading"}),
    at(1, "user", action="message", args={"content": "Write it.", "image_urls": None, "wait_for_response": False}),
    at(3, "agent", action="run", args={"command": "mkdir -p /workspace/app", "thought": "First, a folder."}),
    at(4, "agent", cause=3, observation="run", content="",
       extras={"command": "mkdir -p /workspace/app", "metadata": {"exit_code": 0, "working_dir": "/workspace"}}),
    at(5, "agent", action="edit",
       args={"path": "/workspace/app/a.py", "content": "", "start": 1, "end": -1, "impl_source": "oh_aci",
             "translated_ipython_code": "print(file_editor())"},
       tool_call_metadata=metadata("str_replace_editor", command="create", path="/workspace/app/a.py", file_text=CODE)),
    at(6, "agent", cause=5, observation="edit", content="--- /workspace/app/a.py",
       extras={"path": "/workspace/app/a.py", "prev_exist": False, "old_content": "", "new_content": CODE,
               "impl_source": "oh_aci"}),
    at(7, "agent", action="run", args={"command": "cd /workspace/app && pwd && python3 a.py"}),
    at(8, "agent", cause=7, observation="run", content="/workspace/app\nhello",
       extras={"command": "cd /workspace/app && pwd && python3 a.py", "exit_code": 0, "command_id": 12}),
    at(9, "agent", action="message", args={"content": "There it is.", "wait_for_response": True}),
    at(10, "agent", cause=9, observation="null", content="", extras={}),
]  # fmt: skip


async def imported(manager: ConversationManager, trajectory: list[dict[str, Any]], folder: Path) -> str:
    """A conversation that holds this trajectory, with ids in a row as an import makes them."""
    ids = {event["id"]: number for number, event in enumerate(trajectory)}
    id = uuid.uuid4().hex
    envelopes: list[Envelope] = []
    for event in trajectory:
        renumbered = {**event, "id": ids[event["id"]]}
        if "cause" in event:
            renumbered["cause"] = ids.get(event["cause"])
        envelopes.append(envelope_from_dict(renumbered, id))
    new = NewConversation(id, "Imported", str(folder), "", origin="import", origin_of="basic.json")
    return await manager.store.adopt(new, envelopes)


async def played(tmp_path: Path, trajectory: list[dict[str, Any]], workspace: str = "") -> Rerun:
    settings = Settings.model_validate({"agent": {"confirm": "never"}, "sandbox": {"plugins": []}})
    async with managing(tmp_path, settings=settings) as manager:
        rerun = await start_rerun(manager, await imported(manager, trajectory, tmp_path), workspace=workspace)
        async with asyncio.timeout(LONG_S):
            assert await rerun.play()
        assert rerun.session.state.agent_state is AgentState.FINISHED
    return rerun


async def test_trajectory_runs_in_a_folder_of_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    rerun = await played(tmp_path, TRAJECTORY, str(folder))
    assert [pair.outcome for pair in rerun.pairing.pairs] == [Outcome.SAME, Outcome.ALIKE, Outcome.ALIKE]
    assert (folder / "app" / "a.py").read_text() == CODE
    assert f"In this run, /workspace is {folder}." in rerun.notes


async def test_actions_after_a_finish_are_run(tmp_path: Path) -> None:
    """In V0, the actions of a delegate are in its parent's log, with their own finish."""
    finish = at(11, "agent", action="finish", args={"final_thought": "Done.", "outputs": {}})
    more = [
        at(12, "agent", action="run", args={"command": "echo more"}),
        at(13, "agent", cause=12, observation="run", content="more",
           extras={"command": "echo more", "metadata": {"exit_code": 0}}),
    ]  # fmt: skip
    rerun = await played(tmp_path, [*TRAJECTORY, finish, *more])
    assert [pair.outcome for pair in rerun.pairing.pairs][-1] is Outcome.SAME


async def test_actions_without_their_server_or_plugin_are_skipped(tmp_path: Path) -> None:
    others = [
        at(11, "agent", action="delegate", args={"agent": "CodeActAgent", "inputs": {"task": "help"}}),
        at(12, "agent", cause=11, observation="delegate", content="It helped.", extras={"outputs": {}}),
        at(13, "agent", action="call_tool_mcp", args={"name": "search", "arguments": {"q": "x"}}),
        at(14, "agent", cause=13, observation="mcp", content="found", extras={"name": "search"}),
        at(15, "agent", action="condensation", args={"forgotten_event_ids": [1, 2]}),
        at(16, "agent", action="run_ipython", args={"code": "1 + 1"}),
        at(17, "agent", cause=16, observation="run_ipython", content="2", extras={"code": "1 + 1"}),
        at(18, "agent", action="something_else", args={}),
    ]
    rerun = await played(tmp_path, [*TRAJECTORY, *others])
    assert [pair.outcome for pair in rerun.pairing.pairs][3:] == [Outcome.NOT_RUN] * 3
    assert rerun.pairing.is_same
    delegate, mcp, ipython = rerun.pairing.pairs[3:]
    for pair, why in ((delegate, "a delegate works with a model"), (mcp, "search"), (ipython, "no jupyter")):
        assert pair.comparison is not None
        assert why in (pair.comparison.lines[0].new or "")
    assert delegate.new is not None
    assert delegate.new.event.message.endswith("What was recorded:\nIt helped.")


@pytest.mark.parametrize("exit_code", [1, 0])
async def test_another_exit_code_is_a_difference_even_with_equal_text(tmp_path: Path, exit_code: int) -> None:
    log = [
        TRAJECTORY[1],
        at(3, "agent", action="run", args={"command": "echo x; (exit 1)"}),
        at(4, "agent", cause=3, observation="run", content="x",
           extras={"command": "echo x; (exit 1)", "metadata": {"exit_code": exit_code}}),
    ]  # fmt: skip
    rerun = await played(tmp_path, log)
    assert rerun.pairing.is_same == (exit_code == 1)
