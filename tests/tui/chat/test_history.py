"""Conversations that come in pages, from files, and from other versions."""

from __future__ import annotations

import random

import pytest

from core.events import (
    CmdRunAction,
    Envelope,
    Event,
    FileReadAction,
    FileReadObservation,
    MessageAction,
    Observation,
    envelope_from_dict,
)
from tests.tui.chat.events import AGENT, conversation, envelope, folded, ran, summaries
from tui.chat.blocks import Kind, Mark


def long_log() -> list[Envelope]:
    events: list[Event | tuple[Event, int]] = []
    for turn in range(20):
        base = len(events)
        events += [
            MessageAction(content=f"do {turn}"),
            CmdRunAction(command=f"c{turn}", thought=f"think {turn}"),
            FileReadAction(path=f"f{turn}"),
            (ran(f"c{turn}", "out", turn % 2), base + 1),
            (FileReadObservation(path=f"f{turn}", content="x"), base + 2),
        ]
    return conversation(*events)


@pytest.mark.parametrize("seed", range(20))
def test_later_pages_make_same_conversation(seed: int) -> None:
    log = long_log()
    cuts = sorted(random.Random(seed).sample(range(1, len(log)), 4))
    pages = [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    model = folded(pages[-1])
    for page in reversed(pages[:-1]):
        model.prepend(page)
    whole = folded(log)
    assert sorted(map(repr, summaries(model))) == sorted(map(repr, summaries(whole)))
    assert model.first_id == 0
    serials = [block.serial for block in model.blocks]
    assert serials == list(range(serials[0], serials[0] + len(serials)))


def test_result_without_loaded_action_has_title() -> None:
    log = conversation(CmdRunAction(command="make all", thought="I build."), (ran("make all", "ok"), 0))
    model = folded(log[1:])
    assert model.blocks[0].title == "$ make all"
    model.prepend(log[:1])
    assert [(block.kind, block.title) for block in model.blocks] == [
        (Kind.AGENT, ""),
        (Kind.TOOL, "$ make all"),
    ]


def test_openhands_trajectory_becomes_conversation() -> None:
    trajectory = [
        {
            "id": 0,
            "source": "user",
            "action": "message",
            "args": {"content": "Create a 2048 game.", "image_urls": None},
        },
        {
            "id": 3,
            "source": "agent",
            "action": "edit",
            "args": {"path": "/w/g.py", "command": "create", "file_text": "x", "thought": "I'll create it."},
        },
        {
            "id": 4,
            "source": "agent",
            "cause": 3,
            "observation": "edit",
            "content": "File created successfully at: /w/g.py",
            "extras": {"path": "/w/g.py", "prev_exist": False, "old_content": "", "new_content": "x"},
        },
        {"id": 5, "source": "agent", "action": "dance", "args": {}, "message": "new in V2"},
        {"id": 6, "source": "agent", "action": "finish", "args": {"thought": "It is done."}},
        {
            "id": 7,
            "source": "environment",
            "observation": "agent_state_changed",
            "content": "",
            "extras": {"agent_state": "finished"},
        },
    ]
    model = folded([envelope_from_dict({"timestamp": "2025-01-27T22:44:56", **event}, "c") for event in trajectory])
    assert summaries(model) == [
        (Kind.USER, "", "Create a 2048 game.", Mark.NONE, ""),
        (Kind.AGENT, "", "I'll create it.", Mark.NONE, ""),
        (Kind.TOOL, "create /w/g.py", "@@ -0,0 +1 @@\n+x", Mark.OK, "+1 −0"),
        (Kind.DETAIL, "unknown event dance new in V2", "", Mark.NONE, ""),
        (Kind.AGENT, "", "It is done.", Mark.NONE, ""),
        (Kind.FINISH, "Finished", "", Mark.OK, ""),
    ]


def test_every_observation_kind_can_be_shown() -> None:
    for kind, cls in Observation.kinds.items():
        required = {name: "x" for name, field in cls.model_fields.items() if field.is_required()}
        required |= {"agent_state": "paused"} if kind == "agent_state_changed" else {}
        required |= {"recall_type": "knowledge"} if kind == "recall" else {}
        required |= {"after": "0"} if kind == "checkpoint" else {}
        event = cls.model_validate({"content": "said", **required})
        for log in (
            conversation(event),
            conversation(CmdRunAction(command="x"), (event, 0)),
            [envelope(5, event, AGENT, 2)],
        ):
            for block in folded(log).blocks:
                assert block.pieces()
