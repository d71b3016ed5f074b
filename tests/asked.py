"""What people ask of agents in a terminal, and the tests and pictures that show what of it is answered here.

The source of docs/asked.md. The wishes are ours to word; they are those that users of such programs, and of OpenHands,
bring up again and again. A row that is not answered, or not whole, says so and why.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wish:
    """One row. `tests` are ids as pytest writes them, without parameters; `pictures` are files of the project."""

    number: str
    wish: str
    answer: str = ""
    """How it is here; empty where it is not answered."""
    tests: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    missing: str = ""
    """What is not answered of it, and why; empty where nothing is missing."""


TITLES = {
    "A1": "Of agents in a terminal",
    "B1": "Of OpenHands: starting, containers, commands",
    "C1": "Of OpenHands: loops, limits, long conversations",
    "D1": "Of OpenHands: tools, consent, the terminal client",
}
"""The first number of each section."""

_DECIDE = "tests/controller/test_decide.py"
_CLIP = "tests/tui/terminal_io/test_clipboard.py"
_CARD = "tests/tui/approval/test_answer_list.py"
_GUARD = "tests/security/test_permissions_guard.py"
_WAIT = "tests/runtime/server/test_input_detection.py"
_LIST = "tests/tui/sessions/test_screen.py"
_SPACE = "tests/tui/workspace/test_workspace.py"
_UNDO = "tests/undo/test_undo.py"
_WHOLE = "tests/journeys/test_terminal_whole.py"
_WAYS = "tests/session/test_recovery.py"
_ENDS = "tests/docker/test_ends.py"
_READER = "tests/journeys/test_screen_reader.py"
_FOOT = "tests/tui/workspace/test_footer.py"
_STORE = "tests/store/test_store_costs.py"

WISHES = (
    Wish(
        "A1",
        "A long conversation must not make typing and drawing slow",
        "What a frame costs depends on what is in sight; `make bench` draws 100,000 blocks, and types while "
        "events pour in",
        (
            "tests/tui/chat/test_view.py::test_an_idle_transcript_draws_nothing",
            "tests/tui/chat/test_find.py::test_a_long_conversation_is_searched_in_portions_and_draws_only_what_is_in_sight",
            "tests/memory/test_conversation_memory.py::test_the_time_for_a_long_history_grows_with_its_length_only",
        ),
    ),
    Wish(
        "A2",
        "Memory must not grow without end over a day of work",
        "What is drawn is a cache with a bound, output is kept as head and tail, scrollback is bounded; the memory of "
        "a workspace with a long conversation and of many conversations is measured by `make bench`; a part of the "
        "campaign works for an hour and watches what the workspace holds",
        (
            "tests/campaign/test_endurance.py::test_what_grows_is_noticed_and_what_only_warms_up_is_not",
            "tests/tui/terminal_io/test_render_cache.py::test_a_dialog_that_was_left_takes_along_what_was_drawn_of_it",
            "tests/tui/chat/test_renderer.py::test_what_is_made_of_strips_for_the_screen_is_kept_for_the_latest_alone",
            "tests/events/test_output.py::test_memory_keeps_head_and_tail",
            "tests/tui/terminal/test_emulators.py::test_lines_that_leave_the_top_go_into_a_bounded_scrollback",
            "tests/tui/chat/test_model.py::test_output_of_10_mb_keeps_its_head_and_its_tail",
        ),
        missing="in minutes of endless work, two hundred events each, memory still grows by some 5 MB a minute, "
        "as the part tells; no run of hours was made",
    ),
    Wish(
        "A3",
        "Nothing may burn the processor while nobody does anything",
        "No timer runs and not a byte is written while nothing moves; less motion can be had",
        (
            f"{_WHOLE}::test_an_idle_workspace_writes_nothing",
            f"{_WHOLE}::test_with_reduced_motion_only_the_seconds_move_while_the_agent_works",
            "tests/tui/workspace/test_first_frame.py::test_an_idle_workspace_does_nothing",
        ),
    ),
    Wish(
        "A4",
        "Several agents at once must not drown the screen",
        "Output is drawn in frames, not by event; a hidden tab gathers and draws nothing",
        (
            "tests/tui/workspace/test_tabs.py::test_a_hidden_tab_draws_nothing_however_much_happens_in_it",
            f"{_SPACE}::test_a_hidden_tab_goes_on_collecting_and_says_that_there_is_news",
            "tests/tui/workspace/test_frame_rate.py::test_a_frame_that_is_overdue_does_not_wait",
        ),
    ),
    Wish(
        "A5",
        "No flicker while text streams or the window changes its size, in tmux neither",
        "Only regions that changed are drawn; what stands above a reader does not move; the journeys run inside tmux",
        (
            "tests/tui/chat/test_view.py::test_a_reader_who_scrolled_up_stays_and_is_told_what_is_new",
            "tests/tui/chat/test_text_pieces.py::test_a_fence_that_begins_does_not_flicker_as_text",
            f"{_WHOLE}::test_after_a_storm_of_sizes_the_screen_is_as_before_and_work_goes_on",
        ),
    ),
    Wish(
        "A6",
        "The cursor must stay where one types while an answer streams",
        "Every line to write in has a cursor that stands still",
        ("tests/tui/workspace/test_first_frame.py::test_every_line_to_write_in_has_a_cursor_that_stands_still",),
    ),
    Wish(
        "A7",
        "What was said must not be lost with the alternate screen",
        "The chat has a search and a copy mode of its own; `print_on_exit` leaves the end on the normal screen",
        (
            f"{_WHOLE}::test_what_was_said_stays_on_the_normal_screen_where_that_is_wished",
            f"{_CLIP}::test_copy_mode_leaves_one_pane_and_gives_the_mouse_away",
            "tests/tui/find/test_find.py::test_ctrl_f_from_the_prompt_finds_in_the_chat_and_escape_leaves_the_reader_there",
        ),
        ("tests/tui/snapshots/screen-copy-mode.txt",),
    ),
    Wish(
        "A8",
        '"Copied" must be true, over ssh and in tmux as well',
        "The ways are tried in order, and the one that was taken is said with what it needs",
        (
            f"{_CLIP}::test_the_way_is_said",
            f"{_CLIP}::test_the_first_that_works_is_enough_and_tmux_is_told_too",
            f"{_CLIP}::test_what_is_too_long_for_the_terminal_is_not_said_to_be_copied",
            f"{_CLIP}::test_none_that_works_is_told",
        ),
    ),
    Wish(
        "A9",
        "Some want the mouse to copy at once, others never",
        "A setting, off by default; keys, double and triple clicks; a mode without panes that gives the mouse back",
        (
            f"{_CLIP}::test_the_mouse_copies_at_once_where_that_is_wished",
            f"{_CLIP}::test_copy_mode_leaves_one_pane_and_gives_the_mouse_away",
            "tests/tui/chat/test_copy.py::test_two_clicks_select_a_word_and_three_the_line",
        ),
        ("tests/tui/snapshots/screen-copy-mode.txt",),
    ),
    Wish(
        "A10",
        'Say how far "always" reaches, let a no win, and let me take it back',
        "Once, this conversation, this project, everywhere, in the question, in an editor and for screen readers; a "
        "denial beats all; a screen and a command list and revoke",
        (
            f"{_CARD}::test_an_answer_reaches_as_far_as_its_row_says",
            "tests/acp/test_serving.py::TestQuestions::test_a_yes_reaches_as_far_as_its_option_says",
            f"{_READER}::test_a_yes_reaches_as_far_as_its_scope_says",
            f"{_GUARD}::TestTheOrder::test_a_permission_allows_and_a_denial_beats_it",
            "tests/tui/permissions/test_permissions.py::test_permissions_of_every_scope_are_listed_followed_and_taken_back",
        ),
        ("tests/tui/snapshots/question-160x48.txt",),
    ),
    Wish(
        "A11",
        "Do not ask again what I have allowed; say why you ask",
        "One place decides for screen, editor and headless runs; each question names its rule",
        (
            f"{_CARD}::test_the_rule_that_asks_is_shown_and_what_asks_each_time_is_not_granted",
            "tests/acp/test_serving.py::TestQuestions::test_what_asks_each_time_offers_no_lasting_yes_and_takes_none",
            f"{_READER}::test_never_is_kept_and_what_asks_each_time_takes_no_lasting_yes",
            "tests/security/test_permissions_commands.py::test_what_would_ask_is_denied_where_nobody_is_there",
        ),
    ),
    Wish(
        "A12",
        "A question that nobody sees looks like a program that hangs",
        "It is a state of the conversation: on the tab, in the window's title, a key from anywhere, a notification",
        (
            f"{_SPACE}::test_a_question_in_a_hidden_tab_is_marked_and_comes_up_with_its_tab",
            f"{_CARD}::test_one_key_goes_to_the_next_conversation_that_waits",
            "tests/tui/workspace/test_tabs.py::test_a_mark_stands_in_the_tab_and_in_the_title_of_the_window",
            "tests/session/test_session.py::test_a_question_is_still_there_after_a_restart",
        ),
    ),
    Wish(
        "A13",
        "A crash or a wrong key must not lose the session",
        "Every event is on the disk before it is shown; whoever comes back finds all of it, the open question too; "
        "`handloom doctor --mend` saves what can be read of a damaged database, and a damaged index is made anew",
        (
            "tests/campaign/test_mending.py::test_a_damaged_database_gives_up_what_can_be_read_and_goes_on",
            "tests/journeys/test_mending.py::test_what_can_be_read_is_saved_and_the_conversation_goes_on",
            "tests/store/test_repair.py::test_a_search_makes_a_damaged_index_anew",
            "tests/journeys/test_workspace.py::test_who_was_killed_finds_it_all_too",
            "tests/campaign/test_campaign.py::TestKills::test_a_killed_run_has_lost_nothing_and_goes_on",
            "tests/store/test_store.py::test_the_event_is_durable_before_it_is_visible",
            f"{_DECIDE}::test_a_restart_keeps_a_question_that_waits_for_the_user",
        ),
    ),
    Wish(
        "A14",
        "Let me find the conversation of last week",
        "The list shows title, first words, folder, model, size and age; filters are chips in sight; all text is "
        "searched; names are changed there and on the command line",
        (
            f"{_LIST}::TestList::test_typing_narrows_down_and_enter_opens_at_once",
            f"{_LIST}::TestChips::test_a_click_turns_one_and_its_cross_takes_it_away",
            f"{_LIST}::TestSearch::test_hits_stand_below_their_conversation_and_open_at_the_event",
            f"{_LIST}::TestChanges::test_a_new_name_is_stored_and_shown",
            "tests/journeys/test_session_commands.py::TestIds::test_a_conversation_is_renamed",
        ),
        ("tests/tui/snapshots/screen-sessions.txt",),
    ),
    Wish(
        "A15",
        "Undo must not destroy what is not the agent's",
        "A checkpoint at each turn; the files are listed first; what others changed is left alone; it can be had again",
        (
            "tests/tui/undo/test_undo.py::test_an_undo_shows_the_files_first_and_gives_the_message_back_for_editing",
            f"{_UNDO}::test_what_others_changed_is_named_and_left_alone_unless_the_user_says_otherwise",
            f"{_UNDO}::test_the_last_turn_is_taken_back_and_had_again",
            f"{_UNDO}::test_where_there_are_no_checkpoints_the_chat_is_taken_back_alone",
        ),
    ),
    Wish(
        "A16",
        "A command that asks for a password or a yes must not hang unseen",
        "Whoever reads the terminal is found at once and told on the tab; one key takes the terminal over",
        (
            f"{_WAIT}::test_who_reads_the_terminal_is_announced_at_once",
            "tests/journeys/test_take_over.py::test_a_command_that_waits_for_input_is_told_and_answered",
            "tests/journeys/test_take_over.py::test_vim_edits_a_file_while_the_agent_waits_and_the_agent_is_told",
            "tests/tui/terminal/test_terminal.py::test_a_command_that_waits_for_input_shows_on_the_tab_and_above_the_prompt",
        ),
    ),
    Wish(
        "A17",
        "Saying something now and saying it later are two things",
        "Enter says it now, Tab queues it; what is queued is listed and can be taken back",
        (
            f"{_SPACE}::test_tab_queues_what_enter_would_say_now_and_it_is_shown_until_it_is_said",
            f"{_SPACE}::test_what_is_queued_can_be_taken_back_into_the_prompt",
            f"{_DECIDE}::test_a_queued_message_is_said_once_the_agent_rests_and_in_order",
        ),
    ),
    Wish(
        "A18",
        "It must be readable on a light ground, on the terminal's own colours and without any",
        "Colours are the theme's alone, and each theme is checked for contrast before it is offered",
        (
            "tests/tui/themes/test_theme_files.py::test_ours_can_be_read",
            "tests/tui/themes/test_commands.py::test_a_theme_of_the_terminals_colours_uses_no_other_and_no_ground",
            "tests/tui/themes/test_commands.py::test_with_no_color_there_is_no_colour_at_all",
        ),
        (
            "tests/tui/snapshots/loom-light.txt",
            "tests/tui/snapshots/loom-ansi-dark.txt",
            "tests/tui/snapshots/loom-ansi-light.txt",
            "tests/tui/snapshots/no-color.txt",
        ),
    ),
    Wish(
        "A19",
        "A new line and every command must be on keys that my terminal sends",
        "ctrl+j, and a backslash before Enter, begin a line anywhere; all commands are in the palette; a row of [keys] "
        "gives a command other keys, clashes and keys that terminals do not send are told, and handloom keys --test "
        "shows what a key sends",
        (
            "tests/tui/prompt/test_prompt.py::test_a_new_line_is_begun_without_sending",
            "tests/tui/prompt/test_prompt.py::test_enter_behind_a_backslash_begins_a_new_line_in_its_place",
            f"{_SPACE}::test_the_palette_carries_out_what_is_chosen",
            "tests/tui/shortcuts/test_keymap.py::test_a_remapped_key_carries_out_its_command_and_everything_names_it",
            "tests/tui/shortcuts/test_keymap.py::test_a_wrong_row_is_told_once_and_costs_no_other",
            "tests/journeys/test_keys.py::test_what_keys_send_is_shown_and_the_terminal_is_whole_afterwards",
        ),
    ),
    Wish(
        "A20",
        "A paste of several lines must not be sent at its first line end",
        "A paste never sends; a long one is a chip; in a web browser, too",
        (
            "tests/tui/prompt/test_prompt.py::test_pasted_lines_stay_lines_and_are_never_sent",
            "tests/tui/prompt/test_completion_list.py::test_a_long_paste_is_a_chip_that_backspace_takes_as_one_and_a_key_expands",
            "tests/serve/test_serve.py::test_a_paste_is_one_paste_and_sends_nothing",
        ),
    ),
    Wish(
        "A21",
        "Let me search in what was said, quickly",
        "Not the screen is searched but the conversation, its older pages too; n and N, and a map beside the bar",
        (
            "tests/tui/chat/test_find.py::test_n_goes_on_and_capital_n_back_and_all_hits_in_sight_are_marked",
            "tests/tui/chat/test_find.py::test_before_the_first_hit_older_events_are_loaded_and_searched",
            "tests/tui/chat/test_find.py::test_capitals_matter_once_one_is_written_and_blanks_are_all_the_same",
        ),
        ("tests/tui/snapshots/screen-find.txt",),
    ),
    Wish(
        "A22",
        "Show what of the context is used and what it costs, and show it right",
        "One definition everywhere; what is not known is a dash, what was not counted has a mark",
        (
            f"{_FOOT}::test_a_wide_line_tells_everything",
            f"{_FOOT}::test_what_is_not_known_is_a_dash",
            f"{_FOOT}::test_what_was_not_counted_never_looks_exact",
            f"{_FOOT}::test_the_context_is_never_rounded_to_what_fits",
        ),
        ("docs/demo-160x48.png",),
    ),
    Wish(
        "A23",
        "Tell me when it is done or wants something, while I am elsewhere",
        "Each terminal is told in its own words, only when nobody looks and the work was long; else a bell",
        (
            "tests/tui/workspace/test_attention.py::test_who_is_away_is_told_of_the_end_of_long_work",
            "tests/tui/workspace/test_attention.py::test_each_terminal_is_told_in_its_own_words",
            "tests/tui/workspace/test_attention.py::test_what_is_worth_an_interruption",
            "tests/tui/workspace/test_attention.py::test_no_text_ends_the_sequence_that_it_stands_in",
        ),
    ),
    Wish(
        "A24",
        "Chinese, Japanese and Korean must be typed and drawn right",
        "The terminal's own cursor is on the caret, where an input method opens; widths are in cells",
        (
            "tests/tui/workspace/test_first_frame.py::test_every_line_to_write_in_has_a_cursor_that_stands_still",
            "tests/tui/chat/test_limits.py::test_wide_characters_are_never_cut_in_half",
            "tests/tui/chat/test_renderer.py::test_a_row_is_exactly_as_wide_as_the_view",
        ),
        missing="fcitx5 with Pinyin in a real xterm was looked at by hand (its window opens at the caret, and what it "
        "gives arrives); no test drives one",
    ),
    Wish(
        "A25",
        "A screen reader cannot follow boxes and redraws",
        "`--screen-reader`: plain lines on the normal screen, each with who says it, nothing by colour or place; "
        "questions, scopes and the trust of a folder are whole words that are typed",
        (
            f"{_READER}::test_a_task_from_message_to_end_without_a_drawn_line",
            f"{_READER}::test_a_yes_reaches_as_far_as_its_scope_says",
            f"{_READER}::test_a_folder_is_asked_about_before_anything_is_said",
        ),
    ),
    Wish(
        "A26",
        "No garbage of the mouse in the prompt, and a whole terminal at the end",
        "What is no report of the mouse is left out; the terminal is mended after any end",
        (
            f"{_WHOLE}::test_a_broken_report_of_the_mouse_never_reaches_the_prompt",
            f"{_WHOLE}::test_whichever_way_it_ends_the_terminal_is_whole",
            f"{_WHOLE}::test_what_a_killed_one_left_behind_is_mended_by_the_next",
        ),
    ),
    Wish(
        "A27",
        "A big conversation must open at once and not on a blank screen",
        "Its tail is shown first; a page costs the same however long the conversation is",
        (
            f"{_SPACE}::test_the_last_conversation_of_this_folder_is_resumed_with_its_tail",
            f"{_STORE}::test_the_newest_page_costs_the_same_however_long_the_conversation_is",
            "tests/session/test_state_snapshots.py::test_no_event_is_read_again_to_open_a_conversation_that_was_closed_at_rest",
        ),
    ),
    Wish(
        "A28",
        "Lists must work with the mouse and with keys alike",
        "A click marks, a double click opens, everywhere",
        (
            f"{_LIST}::TestList::test_a_double_click_opens_and_one_click_does_not",
            "tests/tui/models/test_models.py::test_the_wheel_and_a_double_click_do_what_keys_do",
            "tests/tui/settings/test_settings.py::test_a_click_marks_a_field_and_a_double_click_changes_it",
        ),
    ),
    Wish(
        "A29",
        "A second terminal on the same conversation must see what goes on in the first, and take over when it dies",
        "It follows what is stored, says who has it and where to answer, and one key goes on with it once it is free",
        (
            "tests/journeys/test_follow.py::test_the_second_screen_follows_and_goes_on_where_the_first_was_killed",
            "tests/tui/replay/test_follow.py::test_a_flood_is_told_whole_and_in_order_by_few_looks",
            "tests/tui/replay/test_follow.py::test_of_one_that_is_killed_everything_that_it_stored_is_told",
        ),
        missing="what a command prints is seen when it has ended: nothing of it is stored before",
    ),
    Wish(
        "B1",
        "Do not let me wait for the sandbox, and say what it waits for",
        "It starts while the model thinks, a spare container is ready, and every step is told with its time",
        (
            f"{_ENDS}::TestTheFleet::test_a_spare_one_serves_the_next_conversation_and_another_takes_its_place",
            "tests/docker/test_sandbox.py::TestStart::test_a_server_is_ready_soon_after_its_container_is_asked_for",
            f"{_ENDS}::TestStarting::test_a_server_that_does_not_start_tells_why",
        ),
    ),
    Wish(
        "B2",
        "Containers must not be left behind",
        "One that nobody has looked at ends by itself; what a killed screen left is swept away",
        (
            f"{_ENDS}::TestTheFleet::test_what_was_left_behind_is_taken_away_and_what_is_in_use_stays",
            f"{_ENDS}::TestTheScreenThatStartedIt::test_without_anybody_it_ends_by_itself",
            "tests/docker/test_command.py::test_a_task_is_done_in_a_container_and_none_is_left",
        ),
        missing="conversations do not share one container: what one has running is not another's",
    ),
    Wish(
        "B3",
        "The way to the container must not depend on ports, host names and luck",
        "There is no port: a socket in a folder; names and hosts are options; a container that is gone is replaced",
        (
            "tests/docker/test_walls.py::test_nobody_listens_for_the_network",
            "tests/docker/test_options.py::test_variables_names_and_folders_are_there_inside",
            f"{_ENDS}::TestFaults::test_one_that_is_gone_is_told_and_replaced",
        ),
    ),
    Wish(
        "B4",
        "A long command must not be cut off, and I want to know whether it still works",
        "Silence brings a hint and the command goes on; what it prints is shown as it comes; one that waits is told",
        (
            "tests/runtime/server/test_bash_session.py::TestTime::test_silence_brings_a_hint_and_the_command_goes_on",
            "tests/runtime/server/test_bash_session.py::TestTime::test_a_command_is_answered_at_its_end_and_not_at_the_next_look",
            f"{_WAIT}::test_who_works_or_waits_for_something_else_is_not",
        ),
    ),
    Wish(
        "B5",
        "The terminal must be one: scroll back, colours, programs that draw, my own typing",
        "An emulator with scrollback; taken over with one key, so the shell's own history and word keys are there",
        (
            "tests/tui/terminal/test_terminal.py::test_scrolling_back_stops_following_and_end_takes_it_up",
            "tests/journeys/test_take_over.py::test_less_pages_and_a_resize_reaches_it",
            "tests/journeys/test_take_over.py::test_htop_draws_and_ends",
        ),
        ("tests/tui/snapshots/screen-terminal.txt",),
    ),
    Wish(
        "B6",
        "Whatever the model writes as a command must run, or be told",
        "Several lines run in order, and what does not parse comes back with the reason",
        (
            "tests/runtime/server/test_bash_session.py::TestAnyText::test_several_lines_run_in_order",
            "tests/runtime/server/test_bash_session.py::TestAnyText::test_what_does_not_parse_comes_back",
            "tests/campaign/test_campaign.py::TestShells::test_a_shell_that_dies_gives_one_observation_and_is_replaced",
        ),
    ),
    Wish(
        "C1",
        "A loop must not be the end of the conversation",
        "The agent pauses, what was seen is said, and there are ways out; a command that is polled is no loop",
        (
            f"{_DECIDE}::test_a_loop_pauses_says_what_was_seen_and_offers_four_ways_out",
            f"{_WAYS}::test_the_loop_is_cut_out_and_the_user_says_what_comes_next",
            "tests/controller/test_stuck.py::test_polling_whose_output_changes_is_no_loop",
            "tests/controller/test_stuck.py::test_the_same_cell_with_the_same_syntax_error_three_times",
            "tests/controller/test_stuck.py::test_condensing_twice_without_an_answer_in_between",
        ),
        ("tests/tui/snapshots/halt.txt",),
    ),
    Wish(
        "C2",
        "Coming back must show everything, the same each time, in the state in which it is",
        "The state is a fold of the log; opened again it is what it was, on the screen and headless",
        (
            f"{_DECIDE}::test_the_fold_of_every_prefix_is_the_state_that_was_live",
            "tests/journeys/test_workspace.py::test_who_comes_back_finds_it_all",
            "tests/journeys/test_command_line.py::TestRun::test_a_conversation_goes_on_where_it_was",
        ),
    ),
    Wish(
        "C3",
        "A limit must ask and not kill",
        "Reaching one asks, and one wish extends it by the same amount; headless it says how to go on",
        (
            f"{_DECIDE}::test_reaching_the_iteration_limit_asks_and_one_wish_extends_it",
            "tests/session/test_session.py::test_a_limit_asks_and_extending_it_goes_on",
            "tests/journeys/test_command_line.py::TestEnds::test_the_limit_of_answers_ends_with_4_and_says_how_to_go_on",
        ),
    ),
    Wish(
        "C4",
        "Let me bound what a task and a day may cost, and see what each step did",
        "Limits in answers, tokens, dollars and time, for a task and for a day; every answer has its tokens and price",
        (
            f"{_DECIDE}::test_a_budget_is_held_before_the_call_that_would_break_it",
            f"{_WAYS}::test_a_limit_of_the_day_counts_all_conversations_and_is_looked_at_before_the_call",
            "tests/journeys/test_show.py::TestAll::test_all_together_are_told_with_their_days_and_kinds",
        ),
        ("tests/tui/snapshots/screen-statistics.txt",),
    ),
    Wish(
        "C5",
        "Small tasks must not eat hundreds of thousands of tokens",
        "The prompt's beginning stays the same, so that it is cached; the history is condensed before it is too long",
        (
            "tests/memory/test_long_run.py::test_300_steps_in_16k_end_finished_never_over_the_window_and_mostly_from_the_cache",
            "tests/memory/test_condensation.py::test_by_size_it_goes_on_as_if_nothing_had_happened_and_the_log_keeps_all",
        ),
    ),
    Wish(
        "C6",
        "A history that is too long must not end the work; let me condense it myself",
        "It is condensed by itself, then asked about; `/compact` on the screen, in an editor and headless",
        (
            f"{_WAYS}::test_a_history_that_is_too_long_is_condensed_by_itself",
            f"{_WAYS}::test_where_condensing_did_not_help_the_user_is_asked",
            "tests/journeys/test_compact.py::test_a_history_is_condensed_on_wish_and_the_agent_is_not_woken_up",
            "tests/acp/test_serving.py::TestEnds::test_compact_condenses_the_history_and_says_what_came_of_it",
        ),
    ),
    Wish(
        "C7",
        "Thousands of events must load by pages, from the end, and not be sent one by one",
        "Pages from the end; a filter parses only what it keeps; the whole list is nowhere in the screen's memory",
        (
            f"{_STORE}::test_a_page_costs_the_same_wherever_the_conversation_was_opened_again",
            f"{_STORE}::test_what_a_filter_leaves_out_is_not_parsed",
            "tests/tui/events/test_events.py::test_reading_back_asks_once_for_the_page_before_and_keeps_its_place",
        ),
    ),
    Wish(
        "C8",
        "Undo a mistake of the agent, and fork from before it",
        "A checkpoint at each turn, undo by turn, a fork from any event with the files as they were there",
        (
            f"{_UNDO}::test_several_turns_are_taken_back_at_once",
            "tests/tui/undo/test_undo.py::test_a_fork_from_the_chosen_event_comes_in_a_tab_of_its_own",
        ),
    ),
    Wish(
        "D1",
        "The browser must start, answer and end",
        "A page that hangs costs its step and no more; a browser that dies is replaced; without one it is said what to "
        "install; the user can act in it; what it shows was looked at in a real xterm and a real kitty",
        (
            "tests/journeys/test_real_terminals.py::test_xterm_shows_the_page_as_it_is_and_nothing_of_it_elsewhere",
            "tests/runtime/plugins/test_browser_ends.py::test_a_page_that_hangs_costs_the_step_its_time_and_the_worker_its_life",
            "tests/campaign/test_campaign.py::TestBrowsers::test_a_browser_that_is_killed_gives_one_observation_and_is_replaced",
            "tests/runtime/plugins/test_browser_ends.py::test_without_chromium_it_says_what_to_install",
            "tests/journeys/test_users_browser.py::test_the_user_fills_a_form_and_the_agent_reads_what_came_of_it",
        ),
        ("docs/page-160x60.png", "docs/page-in-a-terminal.png"),
        missing="it has not been run on macOS",
    ),
    Wish(
        "D2",
        "A slow or dead MCP server must not stop the agent",
        "Servers start side by side and delay the first answer by a bound; a call always has its observation",
        (
            "tests/mcp/test_supervisor.py::test_a_slow_server_delays_the_first_answer_by_a_small_bound_and_no_other",
            "tests/mcp/test_faults.py::test_other_tools_work_and_an_error_comes_in_time",
            "tests/mcp/test_conversation.py::test_a_server_that_is_killed_in_the_middle_is_told_and_comes_back",
        ),
        ("tests/tui/snapshots/screen-mcp.txt",),
    ),
    Wish(
        "D3",
        "Confirmation must hold: no action before its yes, no message as a yes, another mode at any time",
        "An action is stored as held and runs only by its own yes; shift+tab changes the mode in the middle",
        (
            "tests/contract/test_life.py::TestAnswers::test_nothing_unconfirmed_is_carried_out",
            f"{_DECIDE}::test_a_message_does_not_confirm_an_action_that_waits",
            f"{_CARD}::test_shift_tab_walks_through_the_modes_and_back",
            f"{_SPACE}::test_pause_lets_the_agent_stop_and_again_lets_it_go_on",
        ),
    ),
    Wish(
        "D4",
        "Runs without a screen must be able to agree beforehand, or let risk decide",
        "`--yes`, `--confirm never|risky|always`, rules of a policy; what is denied stays denied",
        (
            "tests/security/test_permissions_commands.py::test_what_would_ask_is_denied_where_nobody_is_there",
            f"{_GUARD}::TestTheOrder::test_without_rules_the_mode_decides",
        ),
    ),
    Wish(
        "D5",
        "Secrets must not show up in what is stored, and masking must not spoil other values",
        "Values are masked in every string and encoding before anything is stored; short ones are no pattern",
        (
            "tests/store/test_stream.py::test_secrets_are_masked_in_every_string_before_anything_is_stored",
            "tests/secrets/test_redacted_streams.py::test_in_a_stream_a_secret_is_masked_at_every_cut",
            "tests/secrets/test_redactor.py::test_values_under_eight_characters_are_never_patterns",
        ),
    ),
    Wish(
        "D6",
        "Every screen must work with the keyboard alone",
        "Every action is a command with a key; settings are changed, narrowed down and left by keys at every size",
        (
            "tests/tui/settings/test_settings.py::test_every_field_has_a_control_that_writes_it",
            "tests/tui/settings/test_settings.py::test_at_every_size_the_highlighted_field_is_on_the_screen",
            f"{_SPACE}::test_f6_walks_through_prompt_and_panes_and_shift_f6_back",
        ),
        ("tests/tui/snapshots/screen-settings.txt",),
    ),
    Wish(
        "D7",
        "Text must be copied out of the chat, by keys and by the mouse",
        "Keys copy an answer, its code, a part of an event; the mouse selects across blocks",
        (
            "tests/tui/chat/test_view.py::test_the_mouse_selects_text_across_blocks",
            "tests/tui/events/test_details.py::test_c_copies_the_part_under_the_cursor_and_of_a_line_the_whole_text",
            f"{_SPACE}::test_ctrl_c_copies_what_is_selected",
        ),
    ),
    Wish(
        "D8",
        "Keys must not be lost, nor come out as escape codes",
        "What is typed before the conversation is open is kept; replies of the terminal are never typed",
        (
            f"{_SPACE}::test_what_is_typed_and_sent_before_the_conversation_is_open_is_not_lost",
            f"{_WHOLE}::test_replies_that_nobody_asked_for_are_not_typed",
            "tests/tui/prompt/test_prompt.py::test_the_arrows_at_the_edges_bring_back_what_was_sent",
        ),
    ),
    Wish(
        "D9",
        "It should run on Windows by itself",
        missing="not at all: shell, walls and terminal are those of Linux and macOS; in WSL it is Linux",
    ),
    Wish(
        "D10",
        "Let me reach the work from a web browser",
        "`handloom serve`: the same workspace, behind a token, on loopback; it ends whole, and pages come back with it",
        (
            "tests/serve/test_serve.py::test_a_task_is_typed_answered_copied_and_there_after_a_reload",
            "tests/serve/test_serve.py::test_its_end_takes_everything_along_and_the_page_comes_back_with_it",
            "tests/serve/test_serve.py::test_a_tab_that_is_closed_changes_nothing_and_another_finds_the_same_screen",
        ),
    ),
    Wish(
        "D11",
        "Let me choose the model from a list, and see what servers of tools there are",
        "A picker with what is near, recent and known of each; a screen of MCP servers with consent and their tools",
        (
            "tests/tui/models/test_models.py::test_recent_ones_come_first_then_what_is_ready_then_the_rest_with_its_figures",
            "tests/tui/mcp/test_mcp.py::test_consent_shows_the_whole_command_and_a_yes_is_to_just_that",
        ),
        ("tests/tui/snapshots/screen-models.txt", "tests/tui/snapshots/screen-mcp.txt"),
    ),
    Wish(
        "D12",
        "Let me see and correct what was changed without leaving",
        "What the conversation has changed, by file and by change, to keep, take back or send back with a remark; your "
        "own editor opens for the prompt",
        (
            "tests/tui/review/test_review.py::test_files_are_accepted_and_taken_back",
            "tests/tui/review/test_review.py::test_remarks_are_sent_with_the_change_or_stay_in_the_prompt",
            "tests/journeys/test_prompt.py::test_the_editor_has_the_terminal_and_what_it_leaves_is_in_the_prompt",
        ),
        missing="there is no editor built in, and no panel for git's branches and commits",
    ),
)
