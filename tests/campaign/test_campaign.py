"""The campaign in short form, and its controls: what is broken on purpose is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import ImportRefusedError
from core.events import (
    Action,
    CmdOutputMetadata,
    CmdOutputObservation,
    Envelope,
    EventFormatError,
    Frame,
    Observation,
    envelope_from_dict,
    envelope_to_dict,
)
from core.import_export.imported_conversation import Imported
from core.import_export.importer import import_file
from core.protocols import LLMResponse, ToolCall
from core.store.database import sqlite3
from core.store.event_store import EventStore
from runtime.local.local_runtime import LocalRuntime
from runtime.server import prompt
from tests.campaign import (
    agent_sessions,
    batches,
    browsers,
    checkpointing,
    containers,
    edits,
    imports,
    interleavings,
    kernels,
    keystrokes,
    kills,
    links,
    owners,
    prefixes,
    replays,
    shells,
    stored,
    streams,
    swaps,
    syscalls,
    trajectories,
)
from tests.campaign.__main__ import MEANINGS, PARTS, as_markdown
from tests.campaign.stored import Row, check_ids, check_observations, check_printed
from tests.campaign.trial import Facts, Result, Violation, children, nobody_is_left, run_trials
from tests.llm.shapes import SHAPES, TEXT
from tui.trust.commands import ANSWERS, YES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the campaign uses what only Linux has")


def holds(result: Result, trials: int) -> None:
    assert result.failures == (), "\n".join(result.failures)
    assert result.trials >= trials


def event(event_id: int, *, lease: int = 1, **form: Any) -> Row:
    return Row(event_id, lease, json.dumps({"id": event_id, **form}))


class TestCheckpoints:
    def test_killed_restore_leaves_old_or_new_files_and_a_readable_store(self, seed: int) -> None:
        holds(checkpointing.kills(checkpointing.KILLS_SHORT, seed), checkpointing.KILLS_SHORT)

    def test_swapped_link_is_not_followed(self, seed: int) -> None:
        result = checkpointing.swaps(checkpointing.SWAPS_SHORT, seed)
        holds(result, checkpointing.SWAPS_SHORT)
        assert result.counts["taken"] > 0


class TestStreams:
    def test_interrupted_answer_is_never_taken_as_complete(self, seed: int) -> None:
        result = streams.run(streams.SHORT, seed)
        holds(result, 100)
        assert len([name for name in result.counts if "plain end: failed" in name]) >= len(SHAPES)

    def test_incomplete_call_would_be_noticed(self) -> None:
        half = LLMResponse("a", TEXT, (ToolCall("c", "execute_bash", "{}"),))
        for shape in SHAPES:
            for at_byte in (10, len(shape.data)):
                with pytest.raises(Violation):
                    streams.check_outcome(shape, at_byte, half)


class TestBatches:
    def test_killed_batch_accepts_each_task_once(self, seed: int) -> None:
        holds(batches.run(batches.SHORT, seed), batches.SHORT)


class TestKills:
    def test_killed_run_loses_nothing_and_can_be_resumed(self, seed: int) -> None:
        result = kills.run(kills.SHORT, seed)
        holds(result, kills.SHORT)
        assert result.counts["events printed before a kill"] > 0

    def test_lost_or_changed_printed_event_is_noticed(self) -> None:
        kept = [{"id": 0, "a": 1}, {"id": 1, "a": 2}]
        check_printed([json.dumps(event) for event in kept], kept)
        with pytest.raises(Violation, match="is lost"):
            check_printed([json.dumps(event) for event in kept], kept[:1])
        with pytest.raises(Violation, match="was printed as"):
            check_printed(['{"id": 1, "a": 2.0}'], kept)

    def test_action_with_no_or_two_observations_is_noticed(self) -> None:
        action, answer = {"id": 0, "action": "run"}, {"id": 1, "observation": "run", "cause": 0}
        check_observations([action, answer], finished=True)
        assert check_observations([action], finished=False) == 1
        with pytest.raises(Violation, match="has no observation"):
            check_observations([action], finished=True)
        with pytest.raises(Violation, match="has 2 observations"):
            check_observations([action, answer, answer], finished=False)

    def test_repeated_effect_is_noticed(self, tmp_path: Path) -> None:
        (tmp_path / "effects").write_text("0.1\n0.2\n0.1\n")
        with pytest.raises(Violation, match="carried out twice"):
            kills.check_effects(tmp_path / "effects")

    def test_leftover_process_is_noticed(self) -> None:
        holds(run_trials("left", "", leaves_nobody, [0], seed=0), 1)
        (failure,) = run_trials("left", "", leaves_a_process, [0], seed=0).failures
        assert "left behind after" in failure
        assert "sleep 600" in failure


def leaves_nobody(seed: int) -> Facts:
    subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)
    nobody_is_left(60)
    return Facts()


def leaves_a_process(seed: int) -> Facts:
    subprocess.run(["sh", "-c", "setsid sleep 600 &"], check=True)
    nobody_is_left(0.3)
    return Facts()


@pytest.mark.strace
class TestSystemCalls:
    def test_writer_killed_at_any_call_loses_nothing(self, seed: int) -> None:
        holds(syscalls.crash_points(syscalls.SHORT, seed), syscalls.SHORT)

    def test_disk_fault_is_reported_and_never_acknowledged(self, seed: int) -> None:
        result = syscalls.disk_faults(syscalls.SHORT, seed)
        holds(result, syscalls.SHORT)
        assert result.counts["refused"] + result.counts["not opened"] > 0

    def test_early_acknowledgement_is_noticed(self, seed: int) -> None:
        result = syscalls.crash_points(syscalls.SHORT, seed, early=True)
        assert any("is lost" in failure for failure in result.failures)


class TestOwners:
    def test_contested_conversation_never_has_two_writers(self, seed: int) -> None:
        result = owners.run(owners.SHORT, seed)
        holds(result, owners.SHORT)
        assert result.counts["kills of owners"] == owners.SHORT

    def test_decreasing_lease_or_gap_is_noticed(self) -> None:
        check_ids("c", [event(0, lease=1), event(1, lease=1), event(2, lease=3)])
        with pytest.raises(Violation, match="two writers"):
            check_ids("c", [event(0, lease=1), event(1, lease=2), event(2, lease=1)])
        with pytest.raises(Violation, match="has gaps"):
            check_ids("c", [event(0), event(2)])

    def test_lost_event_or_event_with_a_foreign_lease_is_noticed(self) -> None:
        rows = [event(0, args={"content": "77"})]
        owners.check_log(rows, {1: 77}, [(1, 0)])
        with pytest.raises(Violation, match="under the lease of another"):
            owners.check_log(rows, {1: 78}, [])
        with pytest.raises(Violation, match="is lost"):
            owners.check_log(rows, {1: 77}, [(1, 1)])
        with pytest.raises(Violation, match="is not the one"):
            owners.check_log(rows, {1: 77}, [(2, 0)])


class TestInterleavings:
    def test_chunks_are_counted(self, seed: int) -> None:
        holds(interleavings.run(interleavings.CHUNK, seed), interleavings.CHUNK)


class TestShells:
    def test_dead_shell_gives_one_observation_and_is_replaced(self, seed: int) -> None:
        holds(shells.deaths(shells.CHUNK, seed), shells.CHUNK)

    def test_interrupted_command_leaves_a_working_shell_and_no_process(self, seed: int) -> None:
        holds(shells.interrupts(shells.CHUNK, seed), shells.CHUNK)

    async def test_leftover_process_of_a_shell_is_noticed(self) -> None:
        async def busy(action: Action, action_id: int, on_frame: Callable[[Frame], None]) -> Observation:
            suffix = prompt.not_executed("echo usable")
            return CmdOutputObservation(command="", content="", metadata=CmdOutputMetadata(suffix=suffix))

        with pytest.raises(Violation, match=r"HANDLOOM_SEED=5: .*is NOT executed"):
            await shells.is_usable(busy, "HANDLOOM_SEED=5", Facts())


@pytest.mark.browser
class TestBrowsers:
    def test_killed_browser_gives_one_observation_and_is_replaced(self, seed: int) -> None:
        holds(browsers.run(browsers.SHORT, seed, browsers.SHORT // 2), browsers.SHORT)

    async def test_page_that_is_not_reopened_is_noticed(self, tmp_path: Path) -> None:
        runtime = LocalRuntime(tmp_path, options=("--plugins", "browser", "--lazy-plugins"))
        await runtime.start()
        try:
            with pytest.raises(Violation, match=r"not usable: .*does not answer"):
                await browsers.is_usable(runtime, "http://localhost:65533/", Facts())
        finally:
            await runtime.aclose()


class TestKernels:
    def test_dead_kernel_is_reported_once_and_replaced(self, seed: int) -> None:
        holds(kernels.run(kernels.CHUNK, seed), kernels.CHUNK)


@pytest.mark.docker
class TestContainers:
    def test_container_fault_is_reported_once_and_the_next_command_works(self, seed: int) -> None:
        holds(containers.run(containers.SHORT, seed, containers.SHORT), containers.SHORT)


class TestLinks:
    def test_action_over_a_broken_link_runs_once_and_is_received_completely(self, seed: int) -> None:
        result = links.run(links.CHUNK, seed)
        holds(result, links.CHUNK)
        assert result.counts["links that broke"] > links.CHUNK / 2

    def test_incomplete_answer_or_repeated_effect_is_noticed(self) -> None:
        links.check_printed("a 1 a 2", "a", 2, "case")
        with pytest.raises(Violation, match="printed"):
            links.check_printed("a 1 a 1 a 2", "a", 2, "case")
        links.check_effects(["1", "2"], {"1"}, {"2"})
        with pytest.raises(Violation, match="twice"):
            links.check_effects(["1", "1"], {"1"}, set())
        with pytest.raises(Violation, match="never"):
            links.check_effects([], {"1"}, set())


class TestTrajectories:
    def test_mutated_event_is_refused_with_a_reason_or_kept_completely(self, seed: int) -> None:
        result = trajectories.run(trajectories.SHORT, seed)
        holds(result, trajectories.SHORT)
        assert min(result.counts[what] for what in ("read", "refused", "no JSON")) > 100

    def test_codec_that_drops_unknown_fields_is_noticed(self) -> None:
        def loses(item: dict[str, Any], conversation: str) -> Envelope:
            return envelope_from_dict({key: value for key, value in item.items() if key != "new"}, conversation)

        data = {"id": 0, "timestamp": "2026-01-01", "source": "agent", "action": "null", "new": 1}
        trajectories.read(json.dumps(data).encode(), Facts())
        with pytest.raises(Violation, match="new is lost"):
            trajectories.read(json.dumps(data).encode(), Facts(), loses)

    def test_read_and_refused_mutants_are_counted_separately(self) -> None:
        facts = Facts()
        whole = {"id": 0, "timestamp": "2026-01-01", "source": "agent", "action": "null", "new": [1]}
        trajectories.read(json.dumps([whole, {"id": 1}]).encode(), facts)
        assert facts.counts == {"read": 1, "refused": 1}
        assert envelope_to_dict(envelope_from_dict(whole, "c"))["new"] == [1]
        with pytest.raises(EventFormatError):
            envelope_from_dict({"id": 1}, "c")


class TestPrefixes:
    @pytest.mark.timeout(400)
    def test_every_prefix_of_a_log_restores_the_live_state(self, seed: int) -> None:
        result = prefixes.run(prefixes.STRIDE, seed)
        holds(result, prefixes.LOGS)
        assert result.counts["folded"] > prefixes.LOGS * prefixes.LEAST * 0.9
        assert result.counts["went on"] >= prefixes.LOGS * prefixes.LEAST // prefixes.STRIDE

    async def test_state_that_differs_from_its_log_is_noticed(self, seed: int, tmp_path: Path) -> None:
        log, live = await prefixes.record(tmp_path, seed, least=20)
        prefixes.folds(log, live)
        live[7] = live[8]
        with pytest.raises(Violation, match="after event 7"):
            prefixes.folds(log, live)


class TestKeystrokes:
    @pytest.mark.timeout(400)
    def test_only_highlighted_and_confirmed_answers_are_given(self, seed: int) -> None:
        result = keystrokes.run_cases(keystrokes.cases(2, seed, at_once=2, painted=True), seed)
        holds(result, 2 * len(keystrokes.EVERY))

    @pytest.mark.timeout(600)
    def test_every_kind_of_question_can_be_answered_without_rendering(self, seed: int) -> None:
        wanted = {f"answers to {kind}" for kind in keystrokes.EVERY}
        for more in range(15):  # twenty random strings need not contain an answer
            result = keystrokes.run_cases(keystrokes.cases(20, seed + more, at_once=20), seed + more)
            holds(result, 20 * len(keystrokes.EVERY))
            wanted -= result.counts.keys()
            if not wanted:
                break
        assert not wanted

    def test_answer_to_a_letter_key_is_noticed(self) -> None:
        assert keystrokes.allowed("y", "", "Allow once", 9.0) == [[]]
        assert keystrokes.allowed("enter", "", "Allow once", 0.1) == [[]]
        assert [("confirm",)] not in keystrokes.allowed("enter", "", "Deny", 9.0)
        assert [("dialog", "True")] not in keystrokes.allowed("escape", "", ANSWERS[YES], 9.0, in_dialog=True)
        assert keystrokes.allowed("enter", "", "Always allow in this project: bash(ls)", 9.0) == [
            [],
            [("permit", "bash(ls)", "project", "allow"), ("confirm",)],
        ]


class TestReplays:
    def test_replay_shows_the_live_screens(self, seed: int) -> None:
        result = replays.run(replays.SHORT, seed, sessions=1)
        holds(result, 1)
        assert result.counts["screens by seek"] == result.counts["screens by step"] > 10

    def test_differing_replay_is_noticed(self) -> None:
        seen = {"chat": [[("said", "bold")]]}
        replays.same(seen, seen, "here")
        for other in ({"chat": [[("said", "")]]}, {"chat": [[("sald", "bold")]]}, {}):
            with pytest.raises(Violation, match="here"):
                replays.same(seen, other, "here")


class TestImports:
    def test_refused_file_writes_and_loses_nothing(self, seed: int) -> None:
        result = imports.run(imports.SHORT, seed)
        holds(result, imports.SHORT)
        assert min(result.counts[what] for what in ("imported", "refused")) > imports.SHORT // 5

    def test_incomplete_import_is_noticed(self) -> None:
        async def loses(store: EventStore, path: Path) -> tuple[str, Imported]:
            if path.is_file() and path.read_bytes().startswith(b"["):
                path.write_bytes(path.read_bytes().replace(b'"degrees"', b'"celsius"'))
                try:
                    return await import_file(store, path)
                finally:
                    path.write_bytes(path.read_bytes().replace(b'"celsius"', b'"degrees"'))
            return await import_file(store, path)

        with pytest.raises(Violation, match=r"degrees.* is lost"):
            imports.chunk(0, 100, loses)

    def test_refusal_that_wrote_something_is_noticed(self) -> None:
        async def writes_first(store: EventStore, path: Path) -> tuple[str, Imported]:
            await store.create_conversation(path.name, title="", workspace="", model="")
            return await import_file(store, path)

        with pytest.raises(Violation, match="a refusal wrote to the database"):
            imports.chunk(0, 20, writes_first)

    def test_refusal_without_a_message_is_noticed(self) -> None:
        async def is_silent(store: EventStore, path: Path) -> tuple[str, Imported]:
            raise ImportRefusedError("no")

        with pytest.raises(Violation, match="no sentence that helps"):
            imports.chunk(0, 1, is_silent)


class TestAgentSessions:
    def test_damaged_sessions_of_every_agent_are_survived(self, seed: int) -> None:
        result = agent_sessions.run(agent_sessions.SHORT, seed)
        holds(result, agent_sessions.SHORT // 2)
        assert len(result.counts) >= 13

    def test_reader_that_crashes_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HANDLOOM_SEED", "1")
        with pytest.raises(Violation, match="no test"):
            agent_sessions.trial((1, "tests/import_export/agents/test_goose.py::test_that_does_not_exist", 1))


@pytest.mark.strace
class TestEdits:
    def test_edit_killed_at_any_call_leaves_old_or_new_file_and_its_undo(self, seed: int) -> None:
        result = edits.run(edits.SHORT, seed)
        holds(result, edits.SHORT)

    def test_overwritten_file_is_noticed(self, seed: int) -> None:
        result = edits.run(None, seed, in_place=True)
        assert any("neither old nor new" in failure for failure in result.failures)


class TestSwaps:
    def test_link_swapped_in_during_an_edit_is_not_followed(self, seed: int) -> None:
        result = swaps.run(swaps.SHORT, seed)
        holds(result, swaps.SHORT)
        assert result.counts["went through"] > swaps.SHORT / 100
        assert result.counts["refused: FileError"] > swaps.SHORT / 100

    def test_check_before_open_is_noticed(self, seed: int) -> None:
        failures = swaps.run(swaps.SHORT, seed, by_path=True).failures
        assert any("outside" in failure for failure in failures)


def test_damaged_file_is_noticed(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "handloom.db") as connection:
        connection.execute("CREATE TABLE x (y)")
        connection.executemany("INSERT INTO x VALUES (?)", [("z" * 500,)] * 200)
    connection.close()
    whole = (tmp_path / "handloom.db").read_bytes()
    (tmp_path / "handloom.db").write_bytes(whole[:8192] + b"\xff" * 4096 + whole[12288:])
    with pytest.raises((Violation, sqlite3.DatabaseError)):
        stored.read(tmp_path)


def test_exception_in_a_trial_is_a_failure_with_its_case() -> None:
    result = run_trials("x", "", breaks, [7], seed=7)
    assert result.failures[0].startswith("7: Traceback")
    assert "KeyError: 'missing'" in result.failures[0]
    assert result.upper_bound is None


def breaks(seed: int) -> Facts:
    nothing: dict[str, float] = {}
    return Facts(peaks={"x": nothing["missing"]})


def test_every_part_has_a_description() -> None:
    assert MEANINGS.keys() == PARTS.keys()


def test_page_lists_trials_and_failures() -> None:
    good = Result("kills", "nothing is lost", 5, 300, (), {"kills": 300}, {"seconds": 0.5}, 60.0, "abc", "2026-01-01")
    bad = Result("owners", "never two writers", 5, 200, ("5: two writers",), {}, {}, 60.0)
    page = as_markdown("m", [good, bad])
    assert "| kills | nothing is lost | 300 | 0 | 1 % | 60 s | `abc` | 5 | 2026-01-01 |" in page
    assert "| owners | never two writers | 200 | **1** | | 60 s |" in page
    assert "5: two writers" in page


def test_child_processes_are_listed_by_kind() -> None:
    waits = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        listed = [line for line in children() if line.startswith(f"{process.pid} ")]
        process.kill()
    assert listed == [f"{process.pid} {' '.join(waits)} "]
    assert not [line for line in children() if line.startswith(f"{process.pid} ")]
