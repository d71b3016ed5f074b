"""The whole prompt as a text, for conversations of each shape. A change is seen as a change of a file.

HANDLOOM_SNAPSHOTS=write python -m pytest tests/memory/test_prompt_texts.py     updates them
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    CondensationAction,
    ErrorObservation,
    MessageAction,
    RecallAction,
    RecallObservation,
    RecallType,
)
from core.memory.condensers.condenser import CondenserPipeline
from core.memory.conversation_memory import build_messages
from core.memory.library import PROJECT, YOURS, Source, build_library
from core.memory.memory import recall
from core.memory.view import View
from core.repository import Repository
from core.settings.sections import CondenserSettings
from core.trust.folder_survey import Kind, Piece
from tests.memory.test_view import AGENT, ENVIRONMENT, USER, Log, talk

TEXTS = Path(__file__).parent / "prompts"


def plain() -> Log:
    return talk(2, calls=2)


def greeted() -> Log:
    log = talk(0)
    log.add(
        RecallObservation(
            content="Added workspace context",
            recall_type=RecallType.WORKSPACE_CONTEXT,
            working_dir="/workspace",
            date="2026-01-01",
            environment={"System": "Debian 12, x86_64", "Network": "none", "Git": "branch main, clean"},
            conversation_instructions="What the user wants remembered:\n- Use tabs.",
        ),
        ENVIRONMENT,
        2,
    )
    return log


def recalled() -> Log:
    """All that V0 recalls at the start of a conversation, as memory itself answers it."""
    log = talk(0)
    asked = RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="make a release")
    pieces = [
        Piece(Kind.INSTRUCTIONS, "AGENTS.md", "Be kind."),
        Piece(Kind.MICROAGENT, "release.md", "---\ntriggers: [release]\n---\nOn Mondays."),
    ]
    found = recall(
        asked,
        workspace="/workspace",
        now=datetime(2026, 1, 1, tzinfo=UTC),
        repository=Repository.parse("https://example.org/one.git"),
        branch="main",
        library=build_library(
            [Source(PROJECT, pieces), Source(YOURS, [Piece(Kind.INSTRUCTIONS, "AGENTS.md", "Use tabs.")])]
        ),
        hosts={"https://sandbox.example:8001": 8001, "https://sandbox.example:8002": 8002},
        secrets={"DEPLOY_TOKEN": "for the release", "OTHER_KEY": ""},
        conversation_instructions="Answer in French.",
    )
    log.add(found, ENVIRONMENT, 2)
    return log


def changed() -> Log:
    """What has changed about the environment is told with the next message."""
    log = greeted()
    log.add(MessageAction(content="go on"), USER)
    log.add(
        RecallObservation(recall_type=RecallType.KNOWLEDGE, environment={"Git": "branch topic, uncommitted changes"}),
        ENVIRONMENT,
    )
    return log


def condensed() -> Log:
    log = talk(4)
    log.add(CondensationAction(forgotten_events_start_id=4, forgotten_events_end_id=9, summary="Two of three are done.",
                               summary_offset=4))  # fmt: skip
    log.add(MessageAction(content="And the third?"), USER)
    return log


def huge() -> Log:
    log = talk(1)
    failed = CmdOutputObservation(command="make", content="x" * 40_000, metadata=CmdOutputMetadata(exit_code=2))
    log.add(failed, USER)
    log.add(ErrorObservation(content="The model said nothing."), AGENT)
    return log


@pytest.mark.parametrize(
    "shape", [plain, greeted, recalled, changed, condensed, huge], ids=lambda shape: shape.__name__
)
def test_prompt_is_unchanged(shape: object) -> None:
    log = shape()  # type: ignore[operator]
    events = CondenserPipeline(CondenserSettings()).visible_events(View.of(log).events)
    text = as_text(build_messages(events, 3_000 if shape is huge else None))
    file = TEXTS / f"{shape.__name__}.txt"  # type: ignore[attr-defined]
    if os.environ.get("HANDLOOM_SNAPSHOTS") == "write":
        TEXTS.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def as_text(messages: list[dict[str, object]]) -> str:
    """A prompt as people read it."""
    lines: list[str] = []
    for message in messages:
        lines.append(f"== {message['role']} {message.get('tool_call_id', '')}".rstrip())
        lines.append(str(message["content"]))
        lines += [f"-> {call}" for call in message.get("tool_calls", [])]  # type: ignore[attr-defined]
    return "\n".join(lines) + "\n"
