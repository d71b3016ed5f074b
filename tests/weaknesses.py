"""What OpenHands V0 does badly, how it is here, and the tests that V0 would fail: the source of docs/weaknesses.md.

The numbers and figures are those of a review of V0 at commit d6fab190bfb5 (2025-11-15). A row is here only with a test
that fails on V0's way of doing it, so a test that is renamed or removed takes its row along.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weakness:
    """One row. `tests` are ids as pytest writes them, without parameters."""

    number: int
    there: str
    here: str
    tests: tuple[str, ...]


TITLES = {
    1: "Concurrency",
    11: "Storage and history",
    23: "The sandbox",
    43: "The agent, its limits and its safety",
}
"""The first number of each section."""

WEAKNESSES = (
    Weakness(
        1,
        "A queue thread wakes every 0.1 s, and each callback has a pool and an event loop: 5 threads a conversation",
        "A subscriber is a queue and a task of the conversation; who waits wakes for nothing",
        ("tests/store/test_stream.py::test_subscribers_take_neither_a_thread_nor_a_clock",),
    ),
    Weakness(
        2,
        "Callbacks are bridged into event loops made for the moment, and cut off after 15 s",
        "Every callback is awaited in the one loop, for as long as it takes",
        (
            "tests/store/test_stream.py::"
            "test_every_callback_runs_in_the_loop_of_its_conversation_for_as_long_as_it_takes",
        ),
    ),
    Weakness(
        3,
        "No order across subscribers: what came of an event may be seen before the event was handled elsewhere",
        "Each subscriber takes the events in the order of ids, at its own pace, and what the controller does follows "
        "from the log alone: no interleaving breaks it",
        (
            "tests/controller/test_decide_model_check.py::test_the_invariants_hold_in_random_interleavings",
            "tests/store/test_stream.py::test_every_subscriber_sees_every_event_once_and_in_order",
        ),
    ),
    Weakness(
        4,
        "A callback that fails is a line in the log file",
        "It is an event on the stream, for the user and the agent to see; the others go on",
        ("tests/store/test_stream.py::test_a_subscriber_that_raises_is_isolated_and_reported",),
    ),
    Weakness(
        5,
        "The model is called synchronously in the controller: stop and pause wait for its answer",
        "The call is a task; an interrupt cancels it",
        (
            "tests/session/test_session.py::test_an_interrupt_while_the_model_thinks_ends_it_at_once",
            "tests/llm/test_model_host.py::test_cancelling_returns_at_once_and_hangs_up_on_the_provider",
        ),
    ),
    Weakness(
        6,
        "Without a screen, the state is looked at once a second",
        "The end is awaited",
        ("tests/session/test_headless.py::test_a_run_ends_with_the_agent_and_not_at_the_next_look",),
    ),
    Weakness(
        7,
        "An exception of the runtime is a status and no observation: the action stays pending for ever",
        "It is the observation of its action, and the agent goes on",
        ("tests/session/test_session.py::test_a_runtime_exception_is_always_an_observation",),
    ),
    Weakness(
        8,
        "The stream is closed before the controller: its last events reach nobody",
        "The controller ends, its last events are stored and delivered, then the stream closes",
        ("tests/session/test_session_ends.py::test_who_listens_hears_the_last_words_of_a_conversation_that_is_closed",),
    ),
    Weakness(
        9,
        "Closing means to wait 90 s for a start that is under way, looks every 5 s, and gives up at the first look",
        "Closing waits for what is under way to end, and no longer",
        (
            "tests/session/test_session_ends.py::test_closing_interrupts_a_sandbox_that_starts_and_waits_for_nothing_else",
        ),
    ),
    Weakness(
        11,
        "One file an event and a copy in a page file; 3,996 appends a second at 1,000 events, 457 at 5,000",
        "One row in SQLite; an append costs the same at any length",
        (
            "tests/store/test_store_costs.py::test_an_append_costs_the_same_however_long_the_conversation_is",
            "tests/store/test_store_costs.py::test_an_append_writes_the_event_and_the_row_of_its_conversation",
        ),
    ),
    Weakness(
        12,
        "After a restart in the middle of a page, page files are written where no reader looks",
        "A page is a range of ids, wherever the conversation was opened again",
        ("tests/store/test_store_costs.py::test_a_page_costs_the_same_wherever_the_conversation_was_opened_again",),
    ),
    Weakness(
        13,
        "The next id and the tail come from a listing of the folder: 0.077 s for the last 50 of 5,000",
        "Both are a look into the primary key",
        ("tests/store/test_store_costs.py::test_the_newest_page_costs_the_same_however_long_the_conversation_is",),
    ),
    Weakness(
        14,
        "A filter reads and parses every event",
        "The database filters; only what is found is parsed",
        ("tests/store/test_store_costs.py::test_what_a_filter_leaves_out_is_not_parsed",),
    ),
    Weakness(
        15,
        "Who reconnects is sent the whole history, event by event",
        "Who opens a conversation gets its last page, and older ones on scrolling back",
        (
            "tests/tui/workspace/test_workspace.py::test_the_last_conversation_of_this_folder_is_resumed_with_its_tail",
            "tests/tui/events/test_events.py::test_reading_back_asks_once_for_the_page_before_and_keeps_its_place",
        ),
    ),
    Weakness(
        16,
        "No version of the stored form and no migration",
        "The file has a version; an upgrade happens whole or not at all, and a newer file is refused untouched",
        (
            "tests/store/test_store.py::test_a_database_of_a_newer_version_is_refused_and_not_touched",
            "tests/store/test_store.py::test_an_upgrade_that_fails_leaves_the_old_version",
        ),
    ),
    Weakness(
        17,
        "The controller's state is a pickle beside the log: unsafe to load, broken by the next version, and some "
        "states do not come back",
        "The state is the fold of the log, and nothing else is stored",
        (
            "tests/controller/test_decide.py::test_the_fold_of_every_prefix_is_the_state_that_was_live",
            "tests/session/test_session.py::test_a_question_is_still_there_after_a_restart",
        ),
    ),
    Weakness(
        18,
        "Times are local and without a zone",
        "Times are UTC and say so; order is by id, whatever the clocks do",
        ("tests/store/test_store.py::test_times_are_utc_and_a_clock_that_jumps_changes_no_order",),
    ),
    Weakness(
        19,
        "The metadata file of a conversation is read and written for every event",
        "What a list shows is one row of a table, changed in the event's own transaction",
        (
            "tests/store/test_store_costs.py::test_an_append_writes_the_event_and_the_row_of_its_conversation",
            "tests/store/test_store.py::test_the_list_shows_the_newest_first",
        ),
    ),
    Weakness(
        20,
        "An id is taken before its event is on the disk, and nothing is synced: a crash leaves gaps that readers skip",
        "An event is committed and synced before anybody sees it; ids have no gaps, after failures and kills too",
        (
            "tests/store/test_store.py::test_the_event_is_durable_before_it_is_visible",
            "tests/store/test_store.py::test_a_full_disk_is_said_and_work_goes_on_when_there_is_room",
            "tests/campaign/test_campaign.py::TestKills::test_a_killed_run_has_lost_nothing_and_goes_on",
        ),
    ),
    Weakness(
        21,
        "After a delegation, a conversation that is opened again has lost its first events",
        "The history is the log, from its first event",
        ("tests/session/test_session_ends.py::test_a_conversation_that_delegated_is_opened_with_its_whole_history",),
    ),
    Weakness(
        22,
        "The id of the model's answer is not stored",
        "It is kept with the call and with the metrics",
        ("tests/events/test_codec.py::test_the_id_of_the_answer_is_there_again",),
    ),
    Weakness(
        23,
        "The screen of tmux is looked at every 0.5 s: `true` takes 0.634 s",
        "The terminal's bytes and the prompt are events: `true` takes a millisecond",
        (
            "tests/runtime/server/test_bash_session.py::TestTime::test_a_command_is_answered_at_its_end_and_not_at_the_next_look",
        ),
    ),
    Weakness(
        24,
        "Output is what stands on the screen, with 10,000 lines of history, folded at 1,000 columns",
        "Output is every byte that was printed, up to 1 GiB a command",
        (
            "tests/runtime/server/test_bash_session.py::TestMuchOutput::test_every_byte_is_shown_and_the_model_reads_both_ends",
            "tests/runtime/server/test_outputs.py::TestOfTheShell::test_the_bytes_are_those_that_the_command_printed",
        ),
    ),
    Weakness(
        25,
        "What is cut out of the middle of an observation is stored nowhere",
        "The whole is in a file whose name the agent is told, and can be paged through by bytes and by lines",
        (
            "tests/runtime/server/test_outputs.py::TestOfTheShell::test_a_cut_observation_says_where_it_is_whole",
            "tests/runtime/server/test_terminal_routes.py::TestOutputs::test_are_read_by_bytes_and_by_lines",
        ),
    ),
    Weakness(
        26,
        "`exit` ends the session for good, and its exit code is not known",
        "The exit code is told, and a fresh shell stands in the same folder",
        (
            "tests/runtime/server/test_bash_ends.py::TestEndOfTheShell::test_a_fresh_shell_stands_in_the_same_folder",
            "tests/campaign/test_campaign.py::TestShells::test_a_shell_that_dies_gives_one_observation_and_is_replaced",
        ),
    ),
    Weakness(
        27,
        "A command that is silent is all the same: one that builds, and one that has asked for a password",
        "One that waits for input is recognised by what it waits for, and told at once",
        (
            "tests/runtime/server/test_input_detection.py::test_who_reads_the_terminal_is_announced_at_once",
            "tests/runtime/server/test_input_detection.py::test_who_works_or_waits_for_something_else_is_not",
        ),
    ),
    Weakness(
        28,
        "Nothing of the output is shown before the command has ended",
        "Bytes are shown as they come, to any number of viewers",
        (
            "tests/runtime/server/test_app.py::TestRoutes::test_with_streaming_the_observation_is_the_last_line",
            "tests/runtime/server/test_terminal_routes.py::TestStream::test_shows_the_last_screenful_and_goes_on",
        ),
    ),
    Weakness(
        29,
        "One command a call, by a parser that is not the shell's: two lines are refused",
        "Any text is the shell's to read: lines run in order, and what does not parse comes back with its error",
        (
            "tests/runtime/server/test_bash_session.py::TestAnyText::test_several_lines_run_in_order",
            "tests/runtime/server/test_bash_session.py::TestAnyText::test_what_does_not_parse_comes_back",
        ),
    ),
    Weakness(
        30,
        "The kernel is behind a gateway, ready when a line of its log has `at` in it; 4 to 12 % of cells lose output",
        "The server talks to the kernel itself; a cell is over when reply and output have both come, and none is lost",
        (
            "tests/runtime/plugins/test_jupyter.py::TestText::test_what_programs_print_stands_in_its_place",
            "tests/runtime/plugins/test_jupyter.py::TestLive::test_who_reads_slowly_makes_the_cell_wait_and_loses_nothing",
            "tests/campaign/test_campaign.py::TestKernels::test_a_kernel_that_dies_is_told_once_and_replaced",
        ),
    ),
    Weakness(
        31,
        "A cell cannot be interrupted; it ends by itself, or after 120 s without a word of what it printed",
        "It is interrupted when nobody waits for it; its output is kept, and a kernel that does not obey is replaced",
        (
            "tests/runtime/plugins/test_jupyter_ends.py::test_a_cell_that_nobody_waits_for_is_interrupted_and_its_kernel_stays",
            "tests/runtime/plugins/test_jupyter_ends.py::test_a_kernel_that_does_not_obey_is_replaced_and_that_is_told",
            "tests/runtime/plugins/test_jupyter_ends.py::test_a_cell_that_has_had_its_time_is_interrupted_and_its_output_kept",
        ),
    ),
    Weakness(
        32,
        "The browser may take 200 s to start, and both sides look into their pipes every 0.01 s",
        "It starts beside the server within two seconds, and whoever waits is woken; what does not answer is ended",
        (
            "tests/runtime/plugins/test_browser_ends.py::test_a_page_that_hangs_costs_the_step_its_time_and_the_worker_its_life",
            "tests/runtime/plugins/test_browser_ends.py::test_a_page_is_opened_by_the_next_browser_where_one_is_gone",
            "tests/campaign/test_campaign.py::TestBrowsers::test_a_browser_that_is_killed_gives_one_observation_and_is_replaced",
        ),
    ),
    Weakness(
        33,
        "Picture, marks, DOM and tree are made and encoded at every step, also for a page that is only read",
        "A page that is read has text and picture; tree and marks come with a step, the DOM where it is asked for",
        (
            "tests/runtime/plugins/test_browser.py::TestReading::test_a_page_that_is_opened_is_read_as_text",
            "tests/runtime/plugins/test_browser.py::TestReading::test_trees_are_given_where_they_are_asked_for",
        ),
    ),
    Weakness(
        34,
        "A browser that is not ready yet says what one says that is switched off",
        "An action waits for it and says so; where there is no Chromium, the answer names what to install",
        ("tests/runtime/plugins/test_browser_ends.py::test_without_chromium_it_says_what_to_install",),
    ),
    Weakness(
        35,
        "A download is found by an error and a look into a fixed folder",
        "It is told by Chromium itself, kept under a safe name, and never takes the place of a file",
        (
            "tests/runtime/plugins/test_browser.py::TestPagesThatActByThemselves::test_a_download_is_kept_under_a_safe_name",
        ),
    ),
    Weakness(
        36,
        "A container is asked every 2 s whether it is ready, its port is found by locks of a second and bound on every "
        "address, and containers are left over",
        "Its server says that it is ready, on a socket that nobody else can reach; the next conversation's is ready "
        "before it is wished for; whatever ends a screen, what it left is found again or taken away",
        (
            "tests/docker/test_walls.py::test_nobody_listens_for_the_network",
            "tests/docker/test_ends.py::TestTheFleet"
            "::test_a_spare_one_serves_the_next_conversation_and_another_takes_its_place",
            "tests/docker/test_ends.py::TestTheFleet::test_what_was_left_behind_is_taken_away_and_what_is_in_use_stays",
            "tests/docker/test_ends.py::TestTheScreenThatStartedIt"
            "::test_it_outlives_one_that_is_killed_and_the_next_finds_it_as_it_was",
            "tests/docker/test_ends.py::TestTheScreenThatStartedIt::test_without_anybody_it_ends_by_itself",
        ),
    ),
    Weakness(
        37,
        "Files move as zips that are made whole and unpacked without a look: a bomb fills the disk, a link leads out",
        "Uploads and downloads are streams; an archive is known whole before anything is written, and stays beneath",
        (
            "tests/runtime/server/test_transfers.py::test_memory_does_not_grow_with_what_is_moved",
            "tests/runtime/server/test_transfers.py::TestUploading::test_a_bad_archive_is_refused_and_leaves_nothing",
        ),
    ),
    Weakness(
        38,
        "The limit on memory is read and not applied; use is only logged, by a thread that cannot be stopped",
        "Memory, processors, processes and files have limits that the kernel holds, and use is told when asked for",
        (
            "tests/runtime/isolation/test_confinement.py::test_memory_processes_and_files_have_an_end",
            "tests/runtime/isolation/test_confinement.py::test_a_group_of_the_kernel_bounds_all_processes_together",
            "tests/runtime/isolation/test_confinement.py::test_what_a_sandbox_uses_and_may_use_is_told",
        ),
    ),
    Weakness(
        39,
        "The clients of MCP servers are made anew for every call; servers are connected one after the other, 30 s each",
        "A server is connected once, beside the others, and kept; the first answer waits two seconds for a slow one",
        (
            "tests/mcp/test_supervisor.py::test_a_slow_server_delays_the_first_answer_by_a_small_bound_and_no_other",
            "tests/mcp/test_supervisor.py::test_calls_share_one_process",
        ),
    ),
    Weakness(
        42,
        "What an edit stores is the text that was asked for: what undo, insert and create changed is lost",
        "Every edit carries the file before and after it, and the diff",
        (
            "tests/contract/test_files.py::TestEditor::test_its_commands_follow_each_other_and_are_taken_back",
            "tests/runtime/server/test_file_actions.py::TestEdit::test_a_large_file_is_told_by_its_diff_alone",
        ),
    ),
    Weakness(
        43,
        "Secrets are stored in the clear in messages and in lists, the model's answer among them",
        "They are masked in every string at every depth, before anything is stored; messages are derived anew",
        (
            "tests/store/test_stream.py::test_secrets_are_masked_in_every_string_before_anything_is_stored",
            "tests/secrets/test_redactor.py::test_a_secret_is_masked_at_every_depth_lists_and_keys_included",
        ),
    ),
    Weakness(
        44,
        "A short secret such as 18 garbles harmless text",
        "Values under 8 characters are never patterns",
        ("tests/secrets/test_redactor.py::test_values_under_eight_characters_are_never_patterns",),
    ),
    Weakness(
        45,
        "Writing a file, browsing, MCP tools and delegation are never asked about",
        "Every action that acts can be held for the user's yes",
        ("tests/security/test_confirmation.py::test_what_acts_waits_unless_nothing_does",),
    ),
    Weakness(
        46,
        "A confirmed or rejected action is added a second time, under another id",
        "The action keeps its identity; the answer to it is an event of its own",
        (
            "tests/controller/test_decide.py::test_a_confirmed_action_keeps_its_identity",
            "tests/session/test_session.py::test_actions_that_act_wait_for_the_users_yes",
        ),
    ),
    Weakness(
        47,
        "The stuck detector flags polls whose output changes, and misses longer circles and changing thoughts",
        "What was seen counts and what was thought does not; circles of up to eight steps are found",
        (
            "tests/controller/test_stuck.py::test_polling_whose_output_changes_is_no_loop",
            "tests/controller/test_stuck.py::test_circles_of_any_length_up_to_eight",
            "tests/controller/test_stuck.py::test_the_same_action_under_a_changing_thought_is_the_same_action",
            "tests/controller/test_stuck.py::test_condensing_twice_without_an_answer_in_between",
        ),
    ),
    Weakness(
        48,
        "A loop ends the work with an error; the ways out are a text menu of one client",
        "A loop pauses and offers four ways out, everywhere",
        (
            "tests/controller/test_decide.py::test_a_loop_pauses_says_what_was_seen_and_offers_four_ways_out",
            "tests/session/test_recovery.py::test_the_loop_is_cut_out_and_the_user_says_what_comes_next",
            "tests/tui/workspace/test_workspace.py::test_a_halt_says_what_it_is_and_offers_its_ways_out",
        ),
    ),
    Weakness(
        49,
        "The budget is looked at when it is spent; one dear call overruns it, and there is none for a day",
        "What the next call will cost is counted before it is made, per conversation and per day",
        (
            "tests/controller/test_decide.py::test_a_budget_is_held_before_the_call_that_would_break_it",
            "tests/session/test_recovery.py::test_a_limit_of_the_day_counts_all_conversations_and_is_looked_at_before_the_call",
        ),
    ),
    Weakness(
        50,
        "A model without a known price costs 0",
        "An unknown price is unknown: in the metrics, in the footer and in `handloom show`",
        (
            "tests/llm/test_model_host.py::test_an_unknown_price_is_not_nothing",
            "tests/llm/test_metrics.py::test_a_cost_that_was_unknown_once_stays_unknown",
            "tests/base/test_statistics.py::test_an_unknown_price_is_counted_and_is_never_nothing",
            "tests/journeys/test_show.py::TestFamily::test_a_price_that_nobody_knows_is_said",
        ),
    ),
    Weakness(
        51,
        "Retries of the main model may be announced to nobody, so that waits of up to 64 s look like a freeze",
        "Each retry is announced with its number and its wait, and the notice is taken away after it",
        (
            "tests/llm/test_retry.py::test_what_may_pass_is_tried_again_and_announced",
            "tests/llm/test_model_host.py::test_what_may_pass_is_tried_again_as_late_as_the_provider_asks",
        ),
    ),
    Weakness(
        52,
        "The model's answer is shown when it is whole",
        "Each token is shown as it comes",
        (
            "tests/llm/test_model_host.py::test_an_answer_streams_and_comes_back_whole",
            "tests/tui/chat/test_live.py::test_an_answer_streams_in_and_becomes_its_event_where_it_stands",
        ),
    ),
    Weakness(
        53,
        "A conversation that no longer fits is recognised by a list of substrings in the controller, one of them for "
        "one provider alone",
        "A failure gets its kind once, where the provider's answer comes in, by class, code and text; what follows "
        "goes by the kind",
        ("tests/llm/test_provider_errors.py::test_each_failure_has_its_kind",),
    ),
    Weakness(
        55,
        'A trigger is any part of a word, so "git" is in "digit"; only the first that matches counts',
        "It is a word of its own, or any part where a script has no words; all that match are told, and nothing twice",
        (
            "tests/memory/test_microagents.py::test_it_is_not",
            "tests/memory/test_library.py::test_all_that_match_are_brought_up_and_nothing_twice",
        ),
    ),
    Weakness(
        56,
        "Where too many conversations are open, the oldest is closed, in the middle of its work",
        "The one that rested longest sleeps, without sandbox and model, and wakes up for the next message; one that "
        "works is never touched, and where all of them work the new one is refused",
        (
            "tests/conversations/test_conversation_manager.py::test_one_that_works_is_never_put_to_sleep",
            "tests/conversations/test_conversation_manager.py::test_one_that_sleeps_wakes_up_for_a_message_and_another_falls_asleep_for_it",
            "tests/conversations/test_conversation_manager.py::test_where_all_of_them_work_one_more_is_refused_and_nothing_is_made_or_said",
        ),
    ),
    Weakness(
        57,
        "A detached conversation is dropped at the next tick of 15 s, whatever its age; a delay of 0 ends all cleaning",
        "It is closed when it has rested for the delay since somebody looked; a delay of 0 keeps it open",
        (
            "tests/conversations/test_conversation_manager.py::test_what_nobody_looks_at_is_closed_by_its_age_and_not_before",
            "tests/conversations/test_conversation_manager.py::test_the_age_counts_from_when_the_work_ended",
            "tests/conversations/test_conversation_manager.py::test_without_a_delay_nothing_is_closed_by_itself",
        ),
    ),
)
