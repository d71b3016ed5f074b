"""Every format becomes events of our vocabulary, and nothing of a file is lost on the way."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import ImportRefusedError
from core.events import (
    AgentFinishAction,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    Envelope,
    ErrorObservation,
    FileEditAction,
    MessageAction,
    NullObservation,
    SystemMessageAction,
    TerminalOutput,
    UnknownObservation,
    envelope_from_dict,
    envelope_to_dict,
    to_json,
)
from core.import_export.imported_conversation import (
    Imported,
    imported_field,
    is_filler,
    original_form,
)
from core.import_export.importer import read
from core.import_export.json_parts import missing_parts
from core.memory.conversation_memory import build_messages
from core.secrets import PLACEHOLDER, Redactor
from core.store.blobs import BlobRef
from core.store.recordings import RecordedFrame
from tests.import_export.files import (
    BASE_STATE,
    EVENTS,
    SDK_EVENTS,
    archive,
    archive_files,
    data_url,
    png,
    sdk_folder,
    time_of,
    trajectory,
    v0_folder,
)

JsonObject = dict[str, Any]


def stored(envelope: Envelope) -> Envelope:
    """The event as it comes back from the database."""
    text = to_json(envelope_to_dict(envelope, derived=False))
    return envelope_from_dict(json.loads(text), envelope.conversation_id)


def assert_nothing_is_lost(imported: Imported, came: list[JsonObject]) -> None:
    kept = [envelope for envelope in imported.envelopes if not is_filler(envelope, envelope_to_dict(envelope))]
    for envelope, event in zip(kept, came, strict=True):
        assert stored(envelope) == envelope
        assert missing_parts(event, original_form(envelope_to_dict(stored(envelope)), place=True)) == {}


class TestTrajectory:
    def test_trajectory_events_become_own_events(self, tmp_path: Path) -> None:
        imported = read(trajectory(tmp_path / "any.name"), conversation_id="c")
        assert imported.format == "openhands"
        assert imported.model == "acme/large"
        assert imported.created_at == datetime(2025, 3, 4, 5, 6, 0, 7, tzinfo=UTC)
        assert imported.warnings == []
        asked, ran, printed, strange, finished = imported.envelopes
        assert isinstance(asked.event, MessageAction)
        assert asked.conversation_id == "c"
        assert isinstance(ran.event, CmdRunAction)
        assert ran.event.command == "ls"
        assert isinstance(printed.event, CmdOutputObservation)
        assert (printed.cause, printed.event.content) == (1, "a\r\nb")
        assert isinstance(strange.event, UnknownObservation)
        assert isinstance(finished.event, AgentFinishAction)

    @pytest.mark.parametrize("told", ["9999-01-01T00:00:00", "9999-12-31T23:59:59-12:00"])
    def test_created_at_is_not_in_the_future(self, tmp_path: Path, told: str) -> None:
        folder = v0_folder(tmp_path / "v0")
        about = json.loads((folder / "metadata.json").read_text())
        (folder / "metadata.json").write_text(json.dumps({**about, "created_at": told}))
        began_at = read(folder).created_at
        assert began_at is not None
        assert began_at <= datetime.now(UTC)

    def test_import_is_lossless(self, tmp_path: Path) -> None:
        assert_nothing_is_lost(read(trajectory(tmp_path / "t.json")), EVENTS)

    def test_exported_trajectory_is_imported_without_loss(self, tmp_path: Path) -> None:
        first = read(trajectory(tmp_path / "1.json"), conversation_id="c")
        forms = [envelope_to_dict(envelope) for envelope in first.envelopes]
        again = read(trajectory(tmp_path / "2.json", forms))
        assert again.envelopes[1:] == [replace(each, conversation_id="") for each in first.envelopes[1:]]
        origin = imported_field(envelope_to_dict(again.envelopes[0]))
        assert origin == {"about": {"conversation_id": "c"}, "before": imported_field(forms[0])}

    @pytest.mark.parametrize("form", ["lines", "server"])
    def test_other_json_shapes_of_the_list_are_read(self, form: str, tmp_path: Path) -> None:
        path = tmp_path / "t"
        lines = "".join(json.dumps(event) + "\n" for event in EVENTS)
        path.write_text(lines if form == "lines" else json.dumps({"trajectory": EVENTS}))
        assert read(path) == read(trajectory(tmp_path / "list"))

    def test_pictures_are_stored_separately(self, tmp_path: Path) -> None:
        url = data_url(png(4, 3))
        event = {**EVENTS[0], "args": {"content": "Look.", "image_urls": [url, "data:image/png;base64,!!"]}}
        imported = read(trajectory(tmp_path / "t.json", [event]))
        (blob,) = imported.blobs
        assert (blob.ref.width, blob.ref.height, blob.data) == (4, 3, png(4, 3))
        asked = imported.envelopes[0].event
        assert isinstance(asked, MessageAction)
        assert asked.image_urls == [str(blob.ref), "data:image/png;base64,!!"]

    def test_picture_url_that_would_change_stays_in_its_event(self, tmp_path: Path) -> None:
        url = data_url(png()).replace("image/png", "image/jpg")
        event = {**EVENTS[0], "args": {"content": "Look.", "image_urls": [url]}}
        imported = read(trajectory(tmp_path / "t.json", [event]))
        assert imported.blobs == []
        assert_nothing_is_lost(imported, [event])

    def test_picture_that_claims_a_huge_size_is_kept_and_not_decoded(self, tmp_path: Path) -> None:
        event = {**EVENTS[0], "args": {"content": "Look.", "image_urls": [data_url(png(50_000, 50_000))]}}
        (blob,) = read(trajectory(tmp_path / "t.json", [event])).blobs
        assert (blob.ref.width, len(blob.data)) == (50_000, len(png(50_000, 50_000)))

    def test_secrets_of_this_machine_are_redacted_on_import(self, tmp_path: Path) -> None:
        events = [{**EVENTS[0], "args": {"content": "it is hunter2-hunter2"}, "x": {"hunter2-hunter2": 1}}]
        imported = read(trajectory(tmp_path / "t.json", events), redactor=Redactor(["hunter2-hunter2"]))
        assert "hunter2" not in repr(imported)
        assert PLACEHOLDER in repr(imported)
        assert "Events that contained secrets of this machine, which were redacted: 1." in imported.warnings


class TestFolderOfV0:
    def test_folder_is_read_with_its_metadata(self, tmp_path: Path) -> None:
        imported = read(v0_folder(tmp_path / "session"))
        plain = read(trajectory(tmp_path / "t.json"))
        assert [each.event for each in imported.envelopes[1:]] == [each.event for each in plain.envelopes[1:]]
        assert (imported.title, imported.model) == ("Files", "acme/large")
        about = imported_field(envelope_to_dict(imported.envelopes[0]))["about"]
        assert about["metadata"]["conversation_id"] == "abc"
        assert_nothing_is_lost(imported, EVENTS)

    def test_events_folder_alone_is_enough(self, tmp_path: Path) -> None:
        imported = read(v0_folder(tmp_path / "session") / "events")
        assert len(imported.envelopes) == len(EVENTS)

    def test_events_are_ordered_by_number_and_not_by_name(self, tmp_path: Path) -> None:
        events = [{**EVENTS[0], "id": number, "args": {"content": str(number)}} for number in range(12)]
        imported = read(v0_folder(tmp_path / "session", events))
        assert [each.event.message for each in imported.envelopes] == [str(number) for number in range(12)]

    def test_truncated_file_refuses_the_whole_folder_and_is_named(self, tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "session")
        (folder / "events" / "3.json").write_text('{"id": 3, "action": "mess')
        with pytest.raises(ImportRefusedError, match=r"session was not imported \(events/3\.json, at character 20"):
            read(folder)

    def test_missing_files_give_a_warning(self, tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "session")
        (folder / "events" / "2.json").unlink()
        assert "Some event files are missing." in read(folder).warnings

    def test_files_of_two_formats_are_refused(self, tmp_path: Path) -> None:
        folder = v0_folder(tmp_path / "session")
        (folder / "events" / "5.json").write_text(json.dumps(SDK_EVENTS[0]))
        with pytest.raises(ImportRefusedError, match="two formats"):
            read(folder)


class TestFolderOfTheSdk:
    @pytest.fixture
    def imported(self, tmp_path: Path) -> Imported:
        return read(sdk_folder(tmp_path / "conversation"), conversation_id="c")

    def test_sdk_events_become_their_v0_counterparts(self, imported: Imported) -> None:
        events = [envelope.event for envelope in imported.envelopes]
        assert isinstance(events[0], SystemMessageAction)
        assert events[0].content == "You help."
        assert isinstance(events[1], MessageAction)
        assert events[1].content == "List the files, please."
        assert isinstance(events[2], CmdRunAction)
        assert (events[2].command, events[2].thought, events[2].timeout) == ("ls", "I look.", 30.0)
        assert isinstance(events[3], FileEditAction)
        assert (events[3].command, events[3].path, events[3].file_text) == ("create", "/w/a", "x")
        assert isinstance(events[4], CmdOutputObservation)
        assert (events[4].content, events[4].exit_code, events[4].metadata.working_dir) == ("a\nb", 0, "/w")
        assert isinstance(events[5], ErrorObservation)
        assert isinstance(events[6], AgentStateChangedObservation)
        assert isinstance(events[7], CondensationAction)
        assert (events[7].forgotten, events[7].summary) == ([1, 2], "Files were listed.")
        assert isinstance(events[9], ChangeAgentStateAction)
        assert isinstance(events[10], AgentFinishAction)
        assert events[10].final_thought == "Done."

    def test_results_have_their_actions_as_cause(self, imported: Imported) -> None:
        assert [envelope.cause for envelope in imported.envelopes[4:6]] == [2, 3]

    def test_sdk_events_without_a_counterpart_are_unknown_events(self, imported: Imported) -> None:
        strange = imported.envelopes[8].event
        assert isinstance(strange, UnknownObservation)
        assert strange.raw["observation"] == "sdk.StreamingDeltaEvent"

    def test_every_sdk_event_keeps_its_original(self, imported: Imported) -> None:
        assert [original_form(envelope_to_dict(stored(each))) for each in imported.envelopes] == SDK_EVENTS
        assert [stored(each) for each in imported.envelopes] == imported.envelopes
        assert imported_field(envelope_to_dict(imported.envelopes[0]))["about"] == {"base_state": BASE_STATE}

    def test_workspace_and_model_are_read(self, imported: Imported) -> None:
        assert (imported.format, imported.model, imported.workspace) == (
            "openhands-sdk",
            "acme/large",
            "/home/somebody/w",
        )

    def test_calls_of_one_answer_stay_together(self, imported: Imported) -> None:
        calls = [each.event.tool_call_metadata for each in imported.envelopes[2:4]]
        assert [call and call.total_calls_in_response for call in calls] == [2, 2]
        first = calls[0]
        assert first is not None
        match first.model_response:
            case {"choices": [{"message": {"tool_calls": [{"id": one}, {"id": other}]}}]}:
                assert (one, other) == ("call_1", "call_2")
            case answer:
                pytest.fail(f"no answer with two calls: {answer}")

    def test_trajectory_of_sdk_events_is_read(self, imported: Imported, tmp_path: Path) -> None:
        from_file = read(trajectory(tmp_path / "t.json", SDK_EVENTS), conversation_id="c")
        assert from_file.envelopes[1:] == imported.envelopes[1:]

    def test_branches_are_reported_and_circular_parents_do_not_hang(self, tmp_path: Path) -> None:
        events = [{**event, "parent_id": SDK_EVENTS[-1 - number]["id"]} for number, event in enumerate(SDK_EVENTS)]
        imported = read(sdk_folder(tmp_path / "conversation", events))
        assert any("branches" in warning for warning in imported.warnings)
        assert [original_form(envelope_to_dict(each)) for each in imported.envelopes] == events

    @pytest.mark.parametrize("spoilt", [None, 5, [], {}, "text", [{"text": 5}], {"kind": "TerminalAction"}])
    def test_event_with_an_unknown_part_is_kept(self, spoilt: Any, tmp_path: Path) -> None:
        for field in ("action", "tool_call", "thought", "observation", "llm_message", "forgotten_event_ids", "tools"):
            events = [{**event, field: spoilt} if field in event else event for event in SDK_EVENTS]
            if isinstance(spoilt, str) and field in ("action", "observation"):
                continue  # such an event is one of V0
            imported = read(trajectory(tmp_path / "t.json", events))
            assert [original_form(envelope_to_dict(stored(each))) for each in imported.envelopes] == events


@pytest.mark.parametrize("part", [None, {}, 5, {"place": 1}, {"a": {"b": 1}}, {"place": {}, "more": {}}])
def test_foreign_field_named_imported_is_kept(part: Any, tmp_path: Path) -> None:
    events = [{**event, "imported": part} for event in EVENTS]
    assert_nothing_is_lost(read(trajectory(tmp_path / "t.json", events)), events)


class TestContinuing:
    """What an imported conversation is to a model, should the user want to go on with it."""

    @pytest.mark.parametrize("form", ["v0", "sdk"])
    def test_every_call_has_its_result(self, form: str, tmp_path: Path) -> None:
        events = EVENTS if form == "v0" else [event for event in SDK_EVENTS if event["kind"] != "Condensation"]
        messages = build_messages(read(trajectory(tmp_path / "t.json", events)).envelopes)
        calls = [call["id"] for message in messages for call in message.get("tool_calls") or []]
        assert calls == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        assert "List the files, please." in str(messages)
        assert (len(calls) >= 2) is (form == "sdk")


class TestArchive:
    def test_archive_is_read_completely(self, tmp_path: Path) -> None:
        picture = png(2, 2)
        url = str(BlobRef("image/png", 2, 2, len(picture), hashlib.sha256(picture).hexdigest()))
        events = [{**EVENTS[0], "timestamp": "2025-03-04T05:06:00+00:00", "cause": None}]
        events[0]["args"] = {"content": "Look.", "image_urls": [url]}
        files = archive_files(events * 2, pictures=(picture,))
        imported = read(archive(tmp_path / "a.bin", files), conversation_id="c")
        assert (imported.title, imported.workspace, imported.model) == ("Files", "/w", "acme/large")
        assert [blob.data for blob in imported.blobs] == [picture]
        at = datetime(2025, 3, 4, 5, 6, 1, 500_000, tzinfo=UTC)
        assert imported.recorded[0] == RecordedFrame(1, at, TerminalOutput(1, b"a\r\n"))
        assert imported.recorded[1].frame == TerminalOutput(1, b"\0", is_echo=True)

    def test_archive_of_handloom_adds_no_provenance(self, tmp_path: Path) -> None:
        events = [
            {**envelope_to_dict(each), "conversation_id": "abc"}
            for each in read(trajectory(tmp_path / "t.json")).envelopes
        ]
        imported = read(archive(tmp_path / "a.zip", archive_files(events)), conversation_id="abc")
        assert [envelope_to_dict(each) for each in imported.envelopes] == events
        assert imported.warnings == []

    def test_unpacked_archive_is_read(self, tmp_path: Path) -> None:
        for name, data in archive_files(pictures=(png(),)).items():
            (tmp_path / "a" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "a" / name).write_bytes(data)
        assert read(tmp_path / "a") == read(archive(tmp_path / "a.zip", archive_files(pictures=(png(),))))

    def test_a_newer_archive_version_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(
            ImportRefusedError, match="version 2, and this Handloom reads versions up to 1; install a newer"
        ):
            read(archive(tmp_path / "a.zip", archive_files(version=2)))

    @pytest.mark.parametrize("member", ["events.jsonl", "recordings.jsonl"])
    def test_modified_member_is_refused(self, member: str, tmp_path: Path) -> None:
        files = archive_files()
        files[member] = files[member].replace(b'"cause": 1', b'"cause": 0')
        with pytest.raises(ImportRefusedError, match="SHA-256"):
            read(archive(tmp_path / "a.zip", files))

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"version": "1"}, "no valid version"),
            ({"version": True}, "no valid version"),
            ({"format": "other"}, "does not describe"),
            ({"counts": {"events": 1, "blobs": 0, "recordings": 2}}, "should count 5 events"),
            ({"sha256": {}}, "does not list it"),
            ({"sha256": {"blobs/x": ""}}, "does not list it"),
            ({"conversation": []}, "no 'conversation'"),
            ({"conversation": {"created_at": "yesterday"}}, "an invalid time"),
        ],
    )
    def test_wrong_description_is_refused(self, change: JsonObject, why: str, tmp_path: Path) -> None:
        with pytest.raises(ImportRefusedError, match=why):
            read(archive(tmp_path / "a.zip", archive_files(**change)))

    def test_invalid_picture_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ImportRefusedError, match="not a picture of a known kind"):
            read(archive(tmp_path / "a.zip", archive_files(pictures=(b"<svg/>",))))

    def test_missing_picture_gives_a_warning(self, tmp_path: Path) -> None:
        events = [{**EVENTS[0], "args": {"content": "", "image_urls": [f"blob:image/png;1x1;9;{'0' * 64}"]}}] * 2
        assert (
            "Pictures that are not in the archive: 1." in read(archive(tmp_path / "a", archive_files(events))).warnings
        )

    def test_secrets_of_this_machine_are_redacted_in_recordings_too(self, tmp_path: Path) -> None:
        imported = read(archive(tmp_path / "a.zip"), redactor=Redactor(["a\r\n-is-too-short", "List the files"]))
        assert "List the files" not in repr(imported)


class TestNumbers:
    def test_gaps_are_filled_with_null_events_and_ids_stay(self, tmp_path: Path) -> None:
        events = [{**event, "id": event["id"] * 10 + 3} for event in EVENTS]
        events[2]["cause"] = 13
        imported = read(trajectory(tmp_path / "t.json", events))
        assert [each.id for each in imported.envelopes] == list(range(44))
        others = [each for each in imported.envelopes if each.id % 10 != 3]
        assert all(isinstance(each.event, NullObservation) and stored(each) == each for each in others)
        assert (imported.envelopes[23].cause, imported.fillers) == (13, 39)
        assert [each.timestamp for each in imported.envelopes[:4]] == [imported.envelopes[3].timestamp] * 4
        assert imported.envelopes[14].timestamp == imported.envelopes[13].timestamp
        assert_nothing_is_lost(imported, events)
        assert imported.warnings == []

    def test_mostly_missing_events_are_renumbered(self, tmp_path: Path) -> None:
        events = [{**event, "id": event["id"] * 10_000} for event in EVENTS]
        events[2]["cause"] = 10_000
        imported = read(trajectory(tmp_path / "t.json", events))
        assert [each.id for each in imported.envelopes] == list(range(5))
        assert imported.envelopes[2].cause == 1
        assert_nothing_is_lost(imported, events)
        assert "Ids were missing; the 5 events were numbered from 0." in imported.warnings

    def test_duplicate_ids_are_kept_in_the_order_of_the_file(self, tmp_path: Path) -> None:
        events = [EVENTS[0], EVENTS[1], {**EVENTS[1], "args": {"command": "pwd"}}, EVENTS[2]]
        imported = read(trajectory(tmp_path / "t.json", events))
        assert imported.envelopes[3].cause == 2
        assert "Events whose id another event has, both kept, one after the other: 1." in imported.warnings
        assert_nothing_is_lost(imported, events)

    def test_unordered_events_are_sorted(self, tmp_path: Path) -> None:
        imported = read(trajectory(tmp_path / "t.json", EVENTS[::-1]))
        assert_nothing_is_lost(imported, EVENTS)
        assert "The events were not in order; they were sorted by their ids." in imported.warnings

    @pytest.mark.parametrize("cause", [1, 2, 4, 99, -1, "1", 1.0, True, [1]])
    def test_invalid_cause_is_removed(self, cause: Any, tmp_path: Path) -> None:
        events = [EVENTS[0], {**EVENTS[1], "cause": cause}, {**EVENTS[2], "cause": 1}]
        imported = read(trajectory(tmp_path / "t.json", events))
        assert [each.cause for each in imported.envelopes] == [None, None, 1]
        assert_nothing_is_lost(imported, events)
        assert any("whose cause does not" in warning for warning in imported.warnings)

    @pytest.mark.parametrize("time", ["9999-12-31T23:59:59", "2999-01-01T00:00:00+14:00"])
    def test_future_time_becomes_the_import_time(self, time: str, tmp_path: Path) -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        events = [EVENTS[0], {**EVENTS[1], "timestamp": time}]
        imported = read(trajectory(tmp_path / "t.json", events), now=now)
        assert imported.envelopes[1].timestamp == now
        assert any("future" in warning for warning in imported.warnings)
        assert_nothing_is_lost(imported, events)

    @pytest.mark.parametrize("time", [None, 5, "", "yesterday", "0001-01-01T00:00:00+14:00", "2025-13-01"])
    def test_unreadable_time_becomes_that_of_the_previous_event(self, time: Any, tmp_path: Path) -> None:
        events = [EVENTS[0], {**EVENTS[1], "timestamp": time}]
        imported = read(trajectory(tmp_path / "t.json", events))
        assert imported.envelopes[1].timestamp == imported.envelopes[0].timestamp
        assert_nothing_is_lost(imported, events)

    def test_condensations_forget_the_same_events_as_before(self, tmp_path: Path) -> None:
        events = [{**event, "id": event["id"] * 2} for event in EVENTS]
        by_id = {"forgotten_event_ids": [2, 4, 5, 99], "summary": "s", "summary_offset": 0}
        by_range = {"forgotten_events_start_id": 2, "forgotten_events_end_id": 10**12}
        none = {"forgotten_events_start_id": 100, "forgotten_events_end_id": 10**12}
        for number, args in enumerate((by_id, by_range, none)):
            place = {"id": 20 + number, "timestamp": time_of(20), "source": "agent"}
            events.append({**place, "action": "condensation", "args": args})
        imported = read(trajectory(tmp_path / "t.json", events))
        found = [each.event for each in imported.envelopes if isinstance(each.event, CondensationAction)]
        assert [list(event.forgotten) for event in found] == [[2, 4, 5], list(range(2, 21)), []]
        assert_nothing_is_lost(imported, events)

    @pytest.mark.parametrize(
        "event",
        [
            {"action": "run", "args": {"command": 5}},
            {"action": "run", "args": "ls"},
            {"observation": "agent_state_changed", "extras": {"agent_state": "dreaming"}},
            {"action": "run", "observation": "run", "args": {"command": "ls"}},
            {"action": ["run"]},
            {"observation": None},
            {"action": "message", "args": {"content": "x"}, "tool_call_metadata": {"function_name": "f", "v2": 1}},
            {"action": "\ud800"},
            {"action": "x" * 1000},
        ],
    )
    def test_unreadable_event_is_kept_unchanged(self, event: JsonObject, tmp_path: Path) -> None:
        events = [EVENTS[0], {"id": 1, "timestamp": time_of(1), "source": "agent", **event}]
        imported = read(trajectory(tmp_path / "t.json", events))
        assert original_form(envelope_to_dict(stored(imported.envelopes[1]))) == events[1]
        assert stored(imported.envelopes[1]) == imported.envelopes[1]
        assert "Events that this version does not understand, kept unchanged: 1." in imported.warnings

    @pytest.mark.parametrize("value", [{}, {"id": 1}, {"kind": 5}, [], {"events": []}])
    def test_values_that_are_not_events_are_refused(self, value: Any, tmp_path: Path) -> None:
        with pytest.raises(ImportRefusedError, match="it is not an event"):
            read(trajectory(tmp_path / "t.json", [EVENTS[0], value]))

    def test_list_without_events_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ImportRefusedError, match="it has no events"):
            read(trajectory(tmp_path / "t.json", []))
