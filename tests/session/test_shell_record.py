"""What is known of the shell: the log, and the commands of an answer that is not in the log yet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.events import Action, CmdOutputMetadata, CmdOutputObservation, CmdRunAction, EventSource, FileReadAction
from core.session.risk_checks import ShellRecord
from core.store.writer import Draft
from core.stream import EventStream
from tests.streams import opened_stream

READS = FileReadAction(path="a")


def cd(folder: str) -> CmdRunAction:
    return CmdRunAction(command=f"cd {folder}")


@asynccontextmanager
async def recorded(tmp_path: Path) -> AsyncIterator[tuple[ShellRecord, EventStream]]:
    async with opened_stream(tmp_path) as stream:
        yield ShellRecord(stream, lambda: "/work"), stream


async def where(record: ShellRecord, action: Action) -> str:
    """The folder in which the shell most likely is before this action."""
    return (await record.before(action)).folders[0]


async def carried_out(stream: EventStream, action: CmdRunAction, folder: str) -> None:
    asked = await stream.append(action, EventSource.AGENT)
    metadata = CmdOutputMetadata(working_dir=folder, exit_code=0)
    result = CmdOutputObservation(command=action.command, content="", metadata=metadata)
    await stream.append(result, EventSource.AGENT, asked.id)


async def test_the_commands_of_one_answer_are_judged_one_after_the_other(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (record, stream):
        assert await where(record, READS) == "/work"
        assert await where(record, cd("a")) == "/work"
        assert await where(record, cd("b")) == "/work/a"
        assert await where(record, READS) == "/work/a/b", "one that is no command reads where the last one ended"
        assert await where(record, READS) == "/work/a/b", "and changes nothing"
        await stream.append(cd("/other"), EventSource.AGENT)
        assert await where(record, READS) == "/other", "once the log has grown, it alone counts"


async def test_one_that_waits_in_the_log_is_judged_by_what_was_before_it(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (record, stream):
        for folder in ("a", "b"):
            await stream.append(cd(folder), EventSource.AGENT)
        assert await where(record, cd("a")) == "/work"
        assert await where(record, cd("b")) == "/work/a"
        assert await where(record, cd("c")) == "/work/a/b"
        assert await where(record, cd("b")) == "/work/a"


async def test_a_long_log_is_read_to_its_end_and_then_only_what_is_new(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (record, stream):
        await stream.append_all([Draft(READS, EventSource.AGENT) for _ in range(501)])
        await carried_out(stream, cd("/here"), "/here")
        assert await where(record, READS) == "/here"
        await carried_out(stream, cd("there"), "/here/there")
        assert await where(record, READS) == "/here/there"
