"""The threats to the sandbox, its files, its protocol, the models and the terminal, the protection, and the tests.

The source of docs/threats.md. The rows and their numbers are those of our threat model. What runs in the sandbox is
taken to be hostile. A row names tests that do what the threat does; `tests/test_documents.py` fails where one of them
does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threat:
    """One row. `tests` are ids as pytest writes them, without parameters."""

    number: str
    threat: str
    control: str
    """The protection, and the worst that can happen."""
    tests: tuple[str, ...]
    is_blocker: bool = False
    """Nothing is released without it."""


TITLES = {
    "A01": "Editors and agents over the Agent Client Protocol",
    "B01": "The browser",
    "C06": "Instructions for agents in a repository",
    "I01": "Imported conversations",
    "I10": "Files and repositories",
    "L01": "Models and the connection to them",
    "M01": "MCP servers",
    "R01": "The terminal",
    "S01": "The action server and the sandbox",
}
"""The first number of each section."""

THREATS = (
    Threat(
        "A01",
        "An editor, or a file that it opened, makes an agent do more than the user would: other folders, servers, "
        "endless lines, an unclear approval",
        "The agent has the same sandbox as any other; further folders are not opened and servers that the editor "
        "names are not started; lines and pictures are bounded; only a clear yes is an approval, and an open "
        "question survives the editor",
        (
            "tests/acp/test_isolation.py::test_agent_of_an_editor_is_isolated",
            "tests/acp/test_isolation.py::test_required_isolation_that_fails_is_reported_to_the_editor",
            "tests/acp/test_sessions.py::TestSessions::test_mcp_servers_of_the_editor_are_reported_and_not_started",
            "tests/acp/test_hostile.py::test_invalid_message_gets_an_error_and_the_next_one_an_answer",
            "tests/acp/test_hostile.py::test_too_long_line_is_skipped_completely",
            "tests/acp/test_hostile.py::test_invalid_pictures_and_sounds_are_refused",
            "tests/acp/test_hostile.py::test_standard_output_has_only_messages",
            "tests/acp/test_updates.py::TestToolCalls::test_permission_request_shows_a_large_edit_completely",
        ),
    ),
    Threat(
        "A02",
        "Another agent that is driven over the protocol takes keys, reads files outside, hangs or sends garbage; or "
        "a model starts it",
        "It is the user's own program and runs outside the sandbox, which the screen says; it gets a small "
        "environment without keys; files that it asks for go through the sandbox and the user's approval; it is "
        "ended if it hangs; only the user can choose it",
        (
            "tests/acp/test_other_agent.py::TestEnvironment::test_agent_gets_only_named_variables",
            "tests/acp/test_other_agent.py::TestFiles::test_files_are_read_and_written_by_the_sandbox_after_approval",
            "tests/acp/test_other_agent.py::TestFiles::test_denied_files_are_an_error_for_the_agent",
            "tests/acp/test_other_agent.py::TestStartPermission::test_models_cannot_delegate_to_an_external_agent",
            "tests/acp/test_other_agent.py::TestTrouble::test_agent_that_ignores_cancel_is_ended",
            "tests/acp/test_other_agent.py::TestTrouble::test_invalid_messages_of_the_agent_are_ignored",
        ),
    ),
    Threat(
        "B01",
        "Redirects never end",
        "Their number is limited, and a navigation has 30 s",
        (
            "tests/runtime/plugins/test_browser.py::TestPagesThatActByThemselves::test_endless_redirects_are_refused",
            "tests/runtime/plugins/test_browser.py::TestPagesThatActByThemselves::test_page_that_reloads_endlessly_can_be_left",
        ),
    ),
    Threat(
        "B02",
        "A page waits for an answer: endless dialogs, windows, permissions, passwords, files",
        "Dialogs are dismissed and counted, at most five tabs are open, and nothing else can ask",
        (
            "tests/runtime/plugins/test_browser.py::TestPagesThatActByThemselves::test_four_hundred_dialogs_are_dismissed",
            "tests/runtime/plugins/test_browser.py::TestPagesThatActByThemselves::test_windows_beyond_five_are_closed",
            "tests/runtime/plugins/test_browser.py::TestPagesThatActByThemselves::test_permission_and_file_prompts_do_not_block",
        ),
    ),
    Threat(
        "B04",
        "A page sends downloads: unasked, endless, or with a name that leads to another folder",
        "They are stored in one hidden folder, under a name without a path, with a size limit, and are never opened",
        (
            "tests/runtime/plugins/test_browser.py::TestPagesThatActByThemselves::test_download_is_saved_under_a_safe_name",
            "tests/runtime/plugins/test_browser_calls.py::test_download_name_is_one_visible_path_component",
        ),
    ),
    Threat(
        "B05",
        "A page crashes the browser or a part of it",
        "One observation says so, the next step works within 10 s, and no process is left",
        (
            "tests/runtime/plugins/test_browser_ends.py::test_crashed_page_is_replaced",
            "tests/runtime/plugins/test_browser_ends.py::test_death_of_chromium_is_reported",
            "tests/runtime/plugins/test_browser_ends.py::test_closing_leaves_no_processes_or_files",
            "tests/campaign/test_campaign.py::TestBrowsers::test_killed_browser_gives_one_observation_and_is_replaced",
        ),
        is_blocker=True,
    ),
    Threat(
        "B06",
        "A page is too large, too deep, or never finishes",
        "Text, tree and time are limited, the observation says what was cut, and none of it reaches the server",
        (
            "tests/runtime/plugins/test_browser_server.py::TestTooMuch::test_too_large_page_is_shown_in_part",
            "tests/runtime/plugins/test_browser.py::TestReading::test_long_page_is_truncated_with_a_note",
        ),
    ),
    Threat(
        "B07",
        "A page, a redirect, a frame or a script calls `file:`, `chrome:` or a private network",
        "Only http, https and the blank page are opened, and all traffic passes a filter that checks addresses",
        (
            "tests/runtime/plugins/test_network_filter.py::TestAddresses::test_other_schemes_are_refused",
            "tests/runtime/plugins/test_network_filter.py::TestAddresses::test_private_addresses_are_refused",
            "tests/runtime/plugins/test_network_filter.py::TestAddresses::test_redirect_to_a_private_address_is_refused",
            "tests/runtime/plugins/test_network_filter.py::TestAddresses::test_frames_scripts_and_sockets_cannot_reach_private_addresses",
            "tests/runtime/plugins/test_network_filter.py::TestAddresses::test_there_is_no_webrtc",
            "tests/runtime/plugins/test_network_filter.py::TestGate::test_cross_site_request_to_the_sandbox_is_refused",
        ),
        is_blocker=True,
    ),
    Threat(
        "B08",
        "Another program takes over the browser by its debugging port",
        "There is no port: the browser is driven through a pipe",
        ("tests/runtime/plugins/test_browser_ends.py::test_chromium_does_not_listen_on_a_port",),
        is_blocker=True,
    ),
    Threat(
        "B10",
        "A page tells the model what to do, and the model obeys",
        "The sandbox limits what that can do: no secret leaves, and nothing on the host changes. After untrusted "
        "content was read, actions that could send data away, write outside the workspace or run what was written "
        "since ask first in every mode, and are denied where nobody can answer. This is decided by reading the "
        "action itself, whatever the model says about it. An address that a page leads to is not approved by that. A"
        " rule or a permission prevents such a question only if it names the action in full, or was given on such a "
        "question",
        (
            "tests/journeys/test_hijacked_model.py::test_hijacked_model_stays_in_the_sandbox",
            "tests/security/test_hostile_pages.py::test_hostile_page_sends_nothing_without_approval",
            "tests/security/test_hostile_pages.py::test_allowed_actions_leak_nothing",
            "tests/security/test_taint.py::test_sending_data_asks_after_a_page_and_not_before",
            "tests/security/test_taint.py::test_redirect_target_is_not_visited",
            "tests/security/test_hostile_live.py::test_user_who_denies_everything_loses_nothing",
            "tests/security/test_hostile_live.py::test_headless_user_loses_nothing",
            "tests/security/test_hostile_live.py::test_same_session_leaks_without_taint_checks",
            "tests/security/test_taint_answers.py::TestModes::test_actions_that_could_send_data_ask_in_every_mode",
            "tests/security/test_taint_answers.py::TestAnswersAreKept::test_earlier_permission_is_asked_again",
        ),
        is_blocker=True,
    ),
    Threat(
        "B12",
        "Cookies and history reach another conversation",
        "Each browser has its own profile, which is deleted with it",
        (
            "tests/runtime/plugins/test_browser_ends.py::test_each_browser_has_a_new_profile",
            "tests/runtime/plugins/test_browser_ends.py::test_closing_leaves_no_processes_or_files",
        ),
    ),
    Threat(
        "B13",
        "Screenshots of pages can be read by others",
        "Only their owner can read them",
        ("tests/runtime/plugins/test_browser.py::TestReading::test_screenshot_file_is_private",),
    ),
    Threat(
        "B14",
        "A page that the user has opened in the agent's browser directs the agent, or learns what was typed",
        "The agent waits meanwhile, and what it reads afterwards is untrusted like any page; text typed as hidden "
        "reaches the page and no event",
        (
            "tests/security/test_foreign_memory.py::test_pages_opened_by_the_user_are_untrusted",
            "tests/user_control/test_user_browser.py::test_agent_waits_until_the_browser_is_given_back",
            "tests/user_control/test_user_browser.py::test_hidden_text_reaches_the_sandbox_and_no_event",
        ),
    ),
    Threat(
        "C06",
        "Instructions, microagents, skills, commands or hooks of a repository direct the agent, or change after they"
        " were read",
        "Nothing of a folder counts before the user has approved the full text of each file; a changed file needs "
        "another approval; files are read up to a limit and from nowhere else",
        (
            "tests/memory/test_knowledge.py::test_untrusted_folder_is_not_used",
            "tests/memory/test_knowledge.py::test_changed_file_needs_new_approval",
            "tests/hooks/test_hooks.py::test_project_hooks_need_the_trust_of_the_user",
            "tests/hooks/test_hooks.py::test_project_hooks_do_not_run_without_isolation",
            "tests/trust/test_folder_survey.py::test_links_out_of_the_folder_are_not_read",
            "tests/trust/test_folder_survey.py::test_fifo_or_device_does_not_block",
            "tests/trust/test_folder_survey.py::test_ten_thousand_files_are_surveyed_in_time",
            "tests/memory/test_frontmatter.py::test_alias_bomb_is_refused_before_it_expands",
            "tests/tui/trust/test_trust.py::test_refusal_is_the_default_and_remembered",
        ),
    ),
    Threat(
        "C07",
        "A sandbox on another machine sends what its project brings: names that lead elsewhere, endless files, "
        "hooks, agents, servers",
        "Invalid names are left out, and files and archives are read up to their limits; the mirror in the data "
        "folder has instructions, microagents, skills and commands only, and each counts after its text was approved",
        (
            "tests/memory/test_remote_mirror.py::test_remote_files_apply_after_approval_but_never_hooks",
            "tests/memory/test_remote_mirror.py::test_mirror_is_inside_the_home_for_any_folder_name",
            "tests/memory/test_remote_mirror.py::test_circular_or_huge_folder_is_limited",
            "tests/runtime/test_client_files.py::test_listing_contains_only_valid_names",
            "tests/runtime/test_client_files.py::test_only_one_file_of_an_archive_is_read_up_to_the_limit",
            "tests/runtime/test_client_files.py::test_endless_answer_is_abandoned",
            "tests/runtime/test_client_files.py::test_only_web_addresses_are_accepted_as_web_hosts",
        ),
    ),
    Threat(
        "I01",
        "A file to import is malformed, cut off, in a wrong encoding, or has garbage at its end",
        "Its structure is checked before any of it is read; it is refused with one sentence that says where, or "
        "stored in one transaction; a refusal does not change a byte of the database",
        (
            "tests/import_export/test_bounded_json.py::TestAccepted::test_every_json_encoding_is_read_with_and_without_bom",
            "tests/import_export/test_bounded_json.py::TestRefused::test_refusal_gives_the_reason",
            "tests/import_export/test_importer.py::TestNothing::test_refused_import_changes_nothing",
            "tests/import_export/test_importer.py::TestNothing::test_cancelled_import_stores_nothing_and_ends_its_thread",
            "tests/campaign/test_campaign.py::TestImports::test_refused_file_writes_and_loses_nothing",
        ),
        is_blocker=True,
    ),
    Threat(
        "I02",
        "JSON with 100,000 levels, numbers of 5,000 digits, NaN, duplicate keys, a million keys",
        "The limits are 64 levels, 300 digits, 10,000 keys and 300,000 parts of one value; NaN and duplicate keys "
        "are refused",
        (
            "tests/import_export/test_bounded_json.py::TestRefused::test_refusal_gives_the_reason",
            "tests/import_export/test_bounded_json.py::TestRefused::test_million_values_are_refused_quickly",
        ),
    ),
    Threat(
        "I03",
        "Events of unknown kinds, or of a newer version",
        "They are kept unchanged as unknown events, and exported as they came; an archive of a newer version is "
        "refused",
        (
            "tests/import_export/test_foreign_files.py::TestTrajectory::test_import_is_lossless",
            "tests/import_export/test_foreign_files.py::TestFolderOfTheSdk::test_every_sdk_event_keeps_its_original",
            "tests/import_export/test_foreign_files.py::TestNumbers::test_unreadable_event_is_kept_unchanged",
            "tests/import_export/test_foreign_files.py::TestArchive::test_a_newer_archive_version_is_refused",
        ),
    ),
    Threat(
        "I04",
        "Ids that are duplicate or missing, circular causes, events out of order, times in the future",
        "Events are numbered from 0, and a cause comes before its event or is dropped; the original values are kept "
        "with them, and the user is informed",
        (
            "tests/import_export/test_foreign_files.py::TestNumbers::test_duplicate_ids_are_kept_in_the_order_of_the_file",
            "tests/import_export/test_foreign_files.py::TestNumbers::test_unordered_events_are_sorted",
            "tests/import_export/test_foreign_files.py::TestNumbers::test_invalid_cause_is_removed",
            "tests/import_export/test_foreign_files.py::TestNumbers::test_future_time_becomes_the_import_time",
            "tests/import_export/test_foreign_files.py::TestNumbers::test_condensations_forget_the_same_events_as_before",
            "tests/import_export/test_foreign_files.py::TestFolderOfTheSdk::test_branches_are_reported_and_circular_parents_do_not_hang",
        ),
    ),
    Threat(
        "I06",
        "An imported conversation, or a fork of one, tells the model what its author wants",
        "It continues only after the user has agreed, once; the answer is an event, and the model is informed",
        (
            "tests/workspaces/test_forks.py::test_imported_conversation_needs_consent_which_is_logged",
            "tests/workspaces/test_forks.py::test_fork_of_an_imported_conversation_needs_consent",
            "tests/tui/undo/test_undo.py::test_imported_conversation_asks_before_the_first_message",
        ),
        is_blocker=True,
    ),
    Threat(
        "I07",
        "An archive or a folder leads elsewhere: `..`, absolute names, links, devices, names that differ in case only",
        "Nothing is unpacked to the disk; an archive with one invalid entry is refused as a whole; in a folder only "
        "regular files are opened, relative to a folder that is held open, and no link is followed",
        (
            "tests/import_export/test_untrusted_files.py::TestArchives::test_path_outside_the_archive_is_refused",
            "tests/import_export/test_untrusted_files.py::TestArchives::test_suspicious_entry_names_are_refused",
            "tests/import_export/test_untrusted_files.py::TestArchives::test_links_and_devices_are_refused",
            "tests/import_export/test_untrusted_files.py::TestArchives::test_names_that_collide_on_some_file_systems_are_refused",
            "tests/import_export/test_untrusted_files.py::TestArchives::test_damaged_archive_is_refused",
            "tests/import_export/test_untrusted_files.py::TestFolders::test_links_are_not_followed",
            "tests/import_export/test_untrusted_files.py::TestFolders::test_link_swapped_in_after_listing_is_not_followed",
            "tests/import_export/test_untrusted_files.py::TestFolders::test_only_regular_files_are_opened",
        ),
        is_blocker=True,
    ),
    Threat(
        "I08",
        "A small archive becomes a large one: bombs, overlapping entries, a million entries",
        "The limits are 10,000 entries, 100 times its size, and 500 MB; the table is bounded before it is read, and "
        "the unpacked bytes are counted",
        (
            "tests/import_export/test_untrusted_files.py::TestArchives::test_zip_bomb_is_refused_before_unpacking",
            "tests/import_export/test_untrusted_files.py::TestArchives::test_unpacked_bytes_are_counted_whatever_size_is_declared",
            "tests/import_export/test_untrusted_files.py::TestFolders::test_sparse_terabyte_file_is_refused_without_reading",
        ),
    ),
    Threat(
        "I09",
        "A picture in an import is a bomb: 50,000 x 50,000 pixels, another format, no picture at all",
        "Only its first bytes are read; it is decoded when it is shown, up to 25 million pixels",
        (
            "tests/import_export/test_foreign_files.py::TestTrajectory::test_picture_that_claims_a_huge_size_is_kept_and_not_decoded",
            "tests/import_export/test_foreign_files.py::TestArchive::test_invalid_picture_is_refused",
        ),
    ),
    Threat(
        "I10",
        "A path leads elsewhere: `..`, absolute, `~`, `%2e`, NUL, `file:`",
        "Paths are resolved below the allowed folders and opened from descriptors; a path that leads elsewhere is an"
        " error that names the allowed folders",
        (
            "tests/runtime/server/test_safe_paths.py::test_path_outside_of_the_roots_is_refused",
            "tests/runtime/server/test_safe_paths.py::test_special_characters_in_names_have_no_meaning",
            "tests/runtime/server/test_safe_paths.py::test_invalid_path_is_refused",
            "tests/runtime/server/test_file_actions.py::TestRoots::test_no_action_leaves_the_roots",
            "tests/runtime/server/test_file_actions.py::TestRoots::test_special_characters_in_names_have_no_meaning",
            "tests/contract/test_files.py::test_file_beside_the_workspace_is_unreachable",
        ),
        is_blocker=True,
    ),
    Threat(
        "I11",
        "A link replaces a file or a folder between the check of a path and its use",
        "No path is opened twice: every step starts from a descriptor; none of a million attempts in the campaign "
        "succeeded",
        (
            "tests/campaign/test_campaign.py::TestSwaps::test_link_swapped_in_during_an_edit_is_not_followed",
            "tests/campaign/test_campaign.py::TestSwaps::test_check_before_open_is_noticed",
            "tests/campaign/test_campaign.py::TestCheckpoints::test_swapped_link_is_not_followed",
            "tests/runtime/server/test_safe_paths.py::test_walk_and_kernel_agree_with_realpath",
        ),
        is_blocker=True,
    ),
    Threat(
        "I12",
        "Special files: a FIFO, a socket, a device, procfs, a sparse terabyte, a hard link to a secret",
        "Only regular files of up to 10 MB are accepted, checked again once they are open; others are refused within"
        " 100 ms. A FIFO in place of an ignore file delays neither a checkpoint nor a list of files",
        (
            "tests/runtime/test_git_files.py::test_checkpoints_are_taken_and_restored",
            "tests/runtime/test_git_files.py::test_files_are_listed_and_other_folders_keep_their_patterns",
            "tests/runtime/server/test_safe_paths.py::test_special_files_are_refused_immediately",
            "tests/runtime/server/test_safe_paths.py::test_kernel_interfaces_are_refused_immediately",
            "tests/runtime/server/test_safe_paths.py::test_file_of_a_terabyte_is_refused_immediately",
            "tests/runtime/server/test_text_file.py::test_hard_link_elsewhere_keeps_the_old_content",
            "tests/runtime/isolation/test_confinement.py::test_no_escape_attempt_succeeds",
        ),
    ),
    Threat(
        "I13",
        "An edit loses something: a crash in the middle, the encoding, line ends, the mode, attributes",
        "A file is replaced in one step, after its undo data is on the disk; it keeps everything but its text",
        (
            "tests/campaign/test_campaign.py::TestEdits"
            "::test_edit_killed_at_any_call_leaves_old_or_new_file_and_its_undo",
            "tests/campaign/test_campaign.py::TestEdits::test_overwritten_file_is_noticed",
            "tests/runtime/server/test_file_actions.py::TestEdit::test_line_ends_encoding_and_mode_are_kept",
            "tests/runtime/server/test_text_file.py::TestAttributes::test_extended_attributes_and_access_lists_are_kept",
            "tests/runtime/server/test_file_actions.py::TestUndo::test_undo_restores_the_exact_bytes",
        ),
    ),
    Threat(
        "I14",
        "A repository runs something when it is opened: git settings, hooks, filters, `.envrc`, files of tools, "
        "modules and programs with names that Handloom uses",
        "On the host, git runs only where no repository can influence it; everything else runs in the sandbox; "
        "nothing of a workspace is imported, read as settings or looked up as a program",
        (
            "tests/journeys/test_hostile_repositories.py::test_work_in_a_hostile_repository_runs_nothing_on_the_host",
            "tests/journeys/test_hostile_repositories.py::test_opening_a_hostile_repository_without_isolation_runs_nothing",
            "tests/journeys/test_hostile_repositories.py::test_agent_files_run_nothing_on_the_host_trusted_or_not",
            "tests/journeys/test_hostile_repositories.py::test_opening_starts_no_program_of_the_repository",
            "tests/journeys/test_hostile_repositories.py::test_git_and_python_on_the_host_trigger_the_traps",
            "tests/packaging/test_installation.py::test_scripts_import_nothing_from_the_folder",
            "tests/packaging/test_installation.py::test_child_processes_import_nothing_from_the_folder",
            "tests/runtime/checkpoints/test_checkpoint_store.py::test_hostile_repository_runs_nothing",
            "tests/runtime/isolation/test_confinement.py::test_hostile_repository_runs_nothing_on_the_host",
            "tests/runtime/isolation/test_git_config.py::test_hostile_repository_cannot_influence_git_identity",
            "tests/runtime/isolation/test_git_config.py::test_only_known_modules_run_git_on_the_host",
            "tests/tui/prompt/test_files.py::test_hostile_repository_runs_nothing",
            "tests/runtime/test_local_runtime.py::test_workspace_modules_do_not_replace_the_servers",
        ),
        is_blocker=True,
    ),
    Threat(
        "I15",
        "File names that look like options, commands or several lines",
        "There is no shell on the host; arguments are passed as lists, and quoted where a shell in the sandbox reads"
        " them",
        (
            "tests/runtime/server/test_host_names.py::test_actions_and_routes_accept_any_file_name",
            "tests/runtime/server/test_host_names.py::test_any_name_may_start_a_path",
            "tests/runtime/server/test_host_names.py::test_workspace_may_have_any_name",
            "tests/runtime/checkpoints/test_checkpoint_store.py::test_restore_reproduces_the_tree_after_any_changes",
            "tests/conversations/test_repository.py::test_addresses_and_branches_that_look_like_options_are_refused",
        ),
    ),
    Threat(
        "I16",
        "Temporary files with predictable names",
        "Names are random, folders belong to their owner only, and existing files are never opened",
        (
            "tests/runtime/server/test_temporary_files.py::test_temporary_folders_are_private_with_random_names",
            "tests/runtime/server/test_temporary_files.py::test_guessed_name_is_skipped",
            "tests/runtime/server/test_file_actions.py::test_guessed_temporary_file_is_not_followed",
        ),
    ),
    Threat(
        "I17",
        "What an earlier conversation has read is recalled later and directs another one",
        "Recalled text is untrusted: addresses in it do not count as named by the user, and actions that could send "
        "data away ask",
        (
            "tests/security/test_foreign_memory.py"
            "::test_memory_of_untrusted_content_does_not_steer_a_later_conversation",
            "tests/security/test_foreign_memory.py::test_recalled_url_is_not_mentioned_by_the_user",
            "tests/memory/test_past_conversations.py::test_other_projects_are_not_searched",
        ),
    ),
    Threat(
        "I18",
        "Untrusted content is remembered as a fact for all later conversations",
        "Only the user can add a memory; the agent has no tool for it, and a host in a memory does not count as "
        "named by the user",
        (
            "tests/security/test_foreign_memory.py::test_pinned_text_mentions_no_host",
            "tests/memory/test_past_conversations.py::test_invalid_fact_is_refused",
        ),
    ),
    Threat(
        "I19",
        "An attempt of a batch makes whoever looks at its files run a program, hang, or fill the memory: git folders "
        "and settings of submodules and of repositories inside, filters, pipes, links, endless files; or it takes the "
        "results of other tasks away",
        "The patch is made with a git folder and an index that no attempt can write, without submodules and "
        "repositories inside; pipes are removed, large files are left out, git's output and time are bounded; a task's "
        "id is never the name of a file of the batch",
        (
            "tests/batch/test_patches.py::test_submodule_of_the_repository_runs_nothing",
            "tests/batch/test_patches.py::test_repository_inside_runs_nothing",
            "tests/batch/test_patches.py::test_pipe_does_not_hang",
            "tests/batch/test_patches.py::test_file_behind_a_link_is_not_read",
            "tests/batch/test_patches.py::test_git_that_takes_too_long_is_ended",
            "tests/batch/test_patches.py::test_id_that_is_a_file_of_the_batch_is_refused",
        ),
    ),
    Threat(
        "I20",
        "A session of another agent is made to do harm: links, pipes, cut or endless files, databases with views and "
        "logs, text that misleads a model, secrets of this machine in its text",
        "Files of other agents are opened for reading only, below the folder of their agent and through no link; what "
        "cannot be understood becomes an event or a sentence; nothing of a session is run, a copy is redacted, and a "
        "model reads it only after the user has agreed",
        (
            "tests/library/test_library.py::test_files_of_the_agent_are_as_before",
            "tests/library/test_library.py::test_secrets_are_redacted",
            "tests/library/test_library.py::test_broken_reader_does_not_hide_the_sessions_of_others",
            "tests/library/test_continuation.py::test_fork_has_the_events_and_waits_for_consent",
            "tests/import_export/agents/test_databases.py::test_links_pipes_and_other_files_are_no_databases",
            "tests/import_export/agents/test_databases.py::test_a_view_has_no_columns",
            "tests/import_export/agents/test_claude_code.py::test_damaged_sessions_are_survived",
        ),
    ),
    Threat(
        "L01",
        "The provider refuses: 401, 403, 404",
        "The call is not retried and not passed to another model; one error says what to set, without the key",
        (
            "tests/llm/test_model_host.py::test_each_failure_has_its_kind_and_shows_no_key",
            "tests/llm/test_model_host.py::test_authentication_error_is_not_retried",
            "tests/llm/test_router.py::test_errors_that_the_user_must_fix_use_no_fallback",
        ),
        is_blocker=True,
    ),
    Threat(
        "L02",
        "The provider is overloaded: 429, 5xx, and asks to wait for seconds, until a date or forever",
        "Waits double with jitter, are as long as the provider asks, up to five minutes, are shown, and end at once "
        "with Esc",
        (
            "tests/llm/test_retry.py::test_random_sequences_of_failures_stay_within_the_limits",
            "tests/llm/test_retry.py::test_cancelling_ends_the_wait_and_removes_the_notice",
            "tests/llm/test_provider_errors.py::test_retry_after_of_the_provider_is_limited",
            "tests/llm/test_model_host.py::test_temporary_errors_are_retried_after_retry_after",
        ),
        is_blocker=True,
    ),
    Threat(
        "L03",
        "No connection, no TLS, no name, a reset, a stall in the middle, one byte now and then",
        "The connection, the first token, a pause and the whole answer have time limits, each a setting; the error "
        "has a type",
        (
            "tests/llm/test_model_host.py::test_unreachable_provider_is_a_connection_failure",
            "tests/llm/test_model_host.py::test_connection_that_is_never_established_has_its_own_timeout",
            "tests/llm/test_model_host.py::test_stalled_provider_times_out",
            "tests/llm/test_model_host.py::test_each_failure_has_its_kind_and_shows_no_key",
        ),
        is_blocker=True,
    ),
    Threat(
        "L04",
        "A stream breaks off at any byte, with a reset or as if it had ended; garbage, half characters",
        "An answer counts once the provider has said that it is finished; no tool call of any other answer runs",
        (
            "tests/campaign/test_campaign.py::TestStreams::test_interrupted_answer_is_never_taken_as_complete",
            "tests/campaign/test_campaign.py::TestStreams::test_incomplete_call_would_be_noticed",
            "tests/llm/test_model_host.py::test_each_failure_has_its_kind_and_shows_no_key",
            "tests/llm/test_shapes.py::test_every_form_of_an_answer_round_trips",
        ),
        is_blocker=True,
    ),
    Threat(
        "L05",
        "Invalid tool calls: no JSON, wrong types, unknown or endless names, duplicate ids, a hundred at once",
        "Arguments are checked against the tool's schema and never changed; an invalid call is an error for the "
        "model, and after three repairs in a row the user is asked; names have at most 64 characters, an answer at "
        "most 32 calls",
        (
            "tests/agent/test_function_calls.py::test_arguments_outside_the_schema_make_no_action",
            "tests/agent/test_function_calls.py::test_invalid_call_becomes_an_error_with_its_id",
            "tests/agent/test_function_calls.py::test_tool_names_are_sanitized_and_shortened",
            "tests/agent/test_function_calls.py::test_empty_or_duplicate_ids_are_replaced",
            "tests/agent/test_function_calls.py::test_calls_beyond_the_limit_are_refused",
            "tests/llm/test_calls_in_text.py::test_truncated_or_unreadable_call_has_no_arguments",
            "tests/agent/test_agent_files.py::test_user_is_asked_after_three_repairs",
            "tests/agent/test_function_calls.py::test_random_responses_become_storable_events",
        ),
        is_blocker=True,
    ),
    Threat(
        "L06",
        "Empty answers: nothing, blanks, reasoning alone; control characters, lone surrogates, megabytes",
        "Each case is defined, an answer has a size limit, and repeated empty answers are detected as a loop",
        (
            "tests/agent/test_function_calls.py::test_empty_answer_asks_the_model_again",
            "tests/agent/test_function_calls.py::test_unstorable_text_is_repaired",
            "tests/llm/test_model_host.py::test_empty_answer_is_an_answer",
            "tests/controller/test_stuck.py::test_answers_that_cannot_be_used",
        ),
    ),
    Threat(
        "L07",
        "The conversation no longer fits the model",
        "A larger model answers if one is set; else the history is compacted once, and then the user is asked",
        (
            "tests/llm/test_router.py::test_call_that_does_not_fit_goes_to_the_larger_model_once",
            "tests/controller/test_decide.py::test_too_long_history_is_condensed_once_then_asks",
            "tests/session/test_recovery.py::test_user_is_asked_if_condensing_did_not_help",
        ),
    ),
    Threat(
        "L08",
        "An agent that repeats itself, and what that costs",
        "Loops of up to eight steps are detected; answers, money, tokens and time have limits; an unknown cost is "
        "not counted as 0",
        (
            "tests/controller/test_stuck.py::test_loops_of_up_to_eight_steps_are_found",
            "tests/controller/test_decide.py::test_budget_is_checked_before_the_call_that_would_exceed_it",
            "tests/controller/test_decide.py::test_budget_with_unknown_price_asks_and_resuming_removes_it",
            "tests/llm/test_model_host.py::test_unknown_price_is_not_zero",
            "tests/llm/test_shapes.py::test_local_model_has_no_price",
        ),
    ),
    Threat(
        "L09",
        "A call is cancelled, at any moment",
        "It returns at once, closes the connection to the provider, and leaves nothing behind",
        (
            "tests/llm/test_model_host.py::test_call_cancelled_at_any_moment_leaves_nothing",
            "tests/llm/test_model_host.py::test_cancelling_returns_at_once_and_closes_the_connection",
        ),
    ),
    Threat(
        "L10",
        "An address, a redirect or a file of the workspace sends a key to another host",
        "A key is sent only where the user named it; redirects are not followed, `.env` is not read; plain http only"
        " on loopback",
        (
            "tests/llm/test_named_models.py::test_address_gets_only_the_key_named_beside_it",
            "tests/llm/test_named_models.py::test_general_address_does_not_apply_to_providers_with_keys",
            "tests/llm/test_shapes.py::test_redirect_does_not_send_the_key_to_another_host",
            "tests/llm/test_shapes.py::test_custom_address_gets_only_the_named_key",
            "tests/llm/test_factory.py::test_key_is_not_sent_unencrypted_to_another_machine",
            "tests/llm/test_model_host.py::test_hostile_workspace_files_are_not_loaded",
            "tests/llm/test_model_catalogue.py::test_listing_sends_no_key_or_other_private_data",
        ),
    ),
    Threat(
        "L11",
        "litellm logs, calls home or fetches prices; a key is in a message, a record or a setting",
        "One process has keys and litellm, connects only to the provider, and prints nothing; its output is redacted",
        (
            "tests/llm/test_model_host.py::test_host_connects_only_to_the_provider",
            "tests/llm/test_model_host.py::test_host_without_input_ends_and_prints_only_that_it_was_ready",
            "tests/llm/test_model_host.py::test_keys_in_error_texts_are_redacted",
            "tests/llm/test_cassettes.py::test_file_contains_no_secret_picture_or_path",
            "tests/llm/test_named_models.py::test_wrong_section_is_reported_without_its_key",
        ),
    ),
    Threat(
        "M01",
        "An MCP server crashes, hangs, floods, answers with a gigabyte or garbage, or colours the names of its tools",
        "All servers are in a child process with limits on memory, lines, lists and time; their texts are sanitised;"
        " other tools continue to work, and a caller gets an error within 5 s",
        (
            "tests/mcp/test_faults.py::test_other_tools_work_and_the_error_is_returned_in_time",
            "tests/mcp/test_faults.py::test_flood_of_tool_changes_is_listed_once_a_second",
            "tests/mcp/test_faults.py::test_child_processes_end_with_their_server",
            "tests/mcp/test_supervisor.py::test_cancelled_call_returns_at_once_and_the_server_is_notified",
            "tests/mcp/test_supervisor.py::test_restarted_host_restarts_all_servers",
            "tests/mcp/test_conversation.py::test_server_killed_during_a_call_is_reported_and_restarted",
        ),
        is_blocker=True,
    ),
    Threat(
        "M02",
        "A tool changes after it was approved, or takes the name of another one",
        "The hash of each tool is stored with the approval; a changed tool is blocked until the user has seen and "
        "approved it; every name contains the name of its server",
        (
            "tests/mcp/test_supervisor.py::test_changed_tool_is_blocked_until_approval",
            "tests/security/test_mcp_marks.py::test_only_closed_read_only_tools_do_not_ask",
            "tests/security/test_mcp_marks.py::test_changed_mark_is_a_changed_tool",
            "tests/mcp/test_supervisor.py::test_tool_changed_while_running_is_blocked",
            "tests/mcp/test_supervisor.py::test_project_cannot_use_the_name_of_a_user_server",
            "tests/tui/mcp/test_mcp.py::test_changed_tool_is_shown_and_a_approves_only_it",
        ),
        is_blocker=True,
    ),
    Threat(
        "M03",
        "A file in the workspace starts a server",
        "Nothing runs before the user has approved the whole command, which is shown as it is; another command, "
        "variable or script asks again; a program without a version is pointed out; a server gets only variables "
        "that were named",
        (
            "tests/mcp/test_supervisor.py::test_project_server_starts_only_after_complete_consent",
            "tests/mcp/test_supervisor.py::test_changed_command_asks_again",
            "tests/mcp/test_supervisor.py::test_changed_script_is_not_restarted",
            "tests/mcp/test_supervisor.py::test_program_without_a_pinned_version_is_reported",
            "tests/mcp/test_supervisor.py::test_server_gets_only_the_named_variables",
            "tests/tui/mcp/test_mcp.py::test_consent_shows_the_whole_command_and_covers_only_it",
            "tests/mcp/test_conversation.py::test_conversation_reports_a_project_that_needs_consent",
        ),
    ),
    Threat(
        "M04",
        "A server asks for an answer of the model, for input of the user or for folders; a resource is a file or an "
        "address",
        "All three are refused; resources are what the server has listed, never a file outside the workspace; a key "
        "is sent to its own address only",
        (
            "tests/mcp/test_faults.py::test_other_tools_work_and_the_error_is_returned_in_time",
            "tests/mcp/test_supervisor.py::test_unlisted_resource_is_not_read",
            "tests/mcp/test_supervisor.py::test_key_is_sent_only_in_its_header_to_its_address",
        ),
    ),
    Threat(
        "M05",
        "A server in the agent's container, or on its remote machine, reaches more than the agent, outlives it, or "
        "shows its key",
        "It is the agent's user, with the agent's files, limits and proxy, and ends with the sandbox, the conversation "
        "or the connection; it has only the variables that were named, and no command line or setting shows them. "
        "Commands of the agent can read them, because they are the same user in the same sandbox; the manual says so. "
        "Its output is as untrusted as that of any server, and bounded",
        (
            "tests/docker/test_mcp.py::test_a_server_is_in_the_container_and_ends_with_the_conversation",
            "tests/docker/test_mcp.py::test_hosts_of_a_server_are_open_in_the_container_while_it_is_wanted",
            "tests/runtime/server/test_mcp_stdio.py::test_it_has_its_own_variables_and_they_are_on_no_command_line",
            "tests/runtime/server/test_mcp_stdio.py::test_it_ends_when_its_client_is_killed",
            "tests/runtime/server/test_mcp_stdio.py::test_long_lines_are_bounded",
            "tests/mcp/test_in_sandbox.py::test_a_suspended_conversation_has_no_server",
        ),
    ),
    Threat(
        "R01",
        "Escape sequences in what is shown: clipboard, title, modes, erasing, C1, text that runs backwards",
        "They are made visible where text comes in, and dropped where lines become bytes; the terminal gets only "
        "Handloom's own sequences",
        (
            "tests/tui/terminal_io/test_hostile_workspace.py::test_hostile_events_write_no_foreign_sequence",
            "tests/tui/terminal_io/test_hostile_workspace.py::test_hostile_events_cover_every_string",
            "tests/tui/terminal_io/test_strip_filter.py::test_no_payload_reaches_terminal",
            "tests/tui/browser/test_graphics.py::test_foreign_placeholder_is_replaced",
        ),
        is_blocker=True,
    ),
    Threat(
        "R02",
        "The same in titles, model names, error texts, notifications and the window's title",
        "One module writes control sequences, and sanitises their texts",
        (
            "tests/tui/workspace/test_attention.py::test_only_one_module_writes_control_sequences",
            "tests/tui/workspace/test_attention.py::test_text_cannot_end_its_escape_sequence",
        ),
        is_blocker=True,
    ),
    Threat(
        "R03",
        "A question is answered by a key that was meant for something else, or shows less than it asks",
        "Only Handloom draws questions, in full, with hidden characters and look-alikes named; letters go to the "
        "prompt, and only Enter on an empty prompt answers, with the highlighted row; keys of the first 0.4 s and "
        "keys that are held down do not count; an answer names its action, so two screens give one answer; a screen "
        "that only follows another process's conversation cannot answer",
        (
            "tests/tui/approval/test_answer_list.py::test_key_that_is_held_down_answers_nothing",
            "tests/tui/approval/test_answer_list.py::test_long_command_can_be_scrolled",
            "tests/tui/approval/test_answer_list.py::test_look_alike_letters_are_reported",
            "tests/tui/approval/test_answer_list.py::test_early_keys_are_ignored_and_letters_reach_the_prompt",
            "tests/approval/test_approval.py::test_of_two_screens_only_the_first_answer_counts",
            "tests/tui/replay/test_follow.py::test_question_is_answered_by_the_owner_before_the_takeover",
        ),
        is_blocker=True,
    ),
    Threat(
        "R05",
        "Replies of the terminal are taken for input of the user",
        "They are dropped before they become keys, in one piece or in many",
        (
            "tests/journeys/test_terminal_whole.py::test_unrequested_replies_are_not_typed",
            "tests/journeys/test_terminal_whole.py::test_broken_mouse_report_never_reaches_the_prompt",
            "tests/tui/terminal_io/test_textual_patches.py::test_filter_is_same_for_any_split",
            "tests/tui/terminal_io/test_textual_patches.py::test_split_reply_types_nothing",
        ),
    ),
    Threat(
        "R11",
        "Many changes of size, a terminal of one cell, one without colours or without any capability",
        "The layout works at every size; NO_COLOR and ASCII are followed; a dumb terminal is refused, with what to do",
        (
            "tests/journeys/test_terminal_whole.py::test_screen_is_intact_after_many_resizes",
            "tests/tui/themes/test_commands.py::test_with_no_color_there_is_no_colour_at_all",
            "tests/tui/terminal_io/test_glyphs.py::test_all_screens_are_ascii",
            "tests/journeys/test_screen_reader.py::test_dumb_terminal_gets_a_hint",
        ),
    ),
    Threat(
        "R12",
        "The terminal is left in a broken state: by a signal, a stop, a kill",
        "It is restored after every end that can be noticed; the next start restores it after a kill",
        (
            "tests/journeys/test_terminal_whole.py::test_terminal_is_restored_however_the_program_ends",
            "tests/journeys/test_terminal_whole.py::test_stopped_program_restores_the_terminal_until_it_continues",
            "tests/journeys/test_terminal_whole.py::test_next_start_restores_the_terminal_after_a_kill",
        ),
    ),
    Threat(
        "R13",
        "Something is copied unasked, or reaches another machine's clipboard unnoticed",
        "Only a key copies or, if that is set, a selection; each copy says which way it took, and has a size limit",
        (
            "tests/tui/terminal_io/test_clipboard.py::test_message_says_how_it_was_copied",
            "tests/tui/terminal_io/test_clipboard.py::test_selection_is_copied_if_configured",
            "tests/tui/terminal_io/test_clipboard.py::test_too_long_text_is_reported_as_not_copied",
        ),
    ),
    Threat(
        "S01",
        "Someone calls the server without the key",
        "Every route of the application requires the key, which comes in a file that is removed, and is compared in "
        "constant time; a server without a key, or with one that could be guessed, does not start",
        (
            "tests/runtime/server/test_app.py::TestGuard::test_every_route_requires_the_key",
            "tests/runtime/server/test_request_guard.py::test_server_without_a_key_is_refused",
            "tests/runtime/server/test_request_guard.py::TestBrowsers::test_key_in_the_address_or_in_a_cookie_is_ignored",
            "tests/runtime/server/test_server.py::TestRefusing::test_empty_key_is_refused",
            "tests/runtime/server/test_server.py::TestHiding::test_key_file_is_removed_and_the_socket_is_private",
        ),
        is_blocker=True,
    ),
    Threat(
        "S02",
        "The server can be reached from elsewhere",
        "It listens on a socket in a folder that only its owner can open; on a port, only on loopback; on any other "
        "address only with TLS 1.2 or newer, a certificate that clients verify, and under its own name",
        (
            "tests/runtime/server/test_listener.py::test_local_sandbox_listens_on_a_private_socket",
            "tests/runtime/server/test_listener.py::test_isolated_sandbox_listens_only_for_its_proxy",
            "tests/runtime/server/test_listener.py::test_port_is_reachable_only_by_loopback",
            "tests/runtime/server/test_listener.py::test_address_that_others_could_reach_is_refused",
            "tests/runtime/server/test_lease.py::TestTls::test_missing_tls_options_are_reported",
            "tests/runtime/server/test_lease.py::TestTls::test_old_versions_are_refused",
            "tests/runtime/test_remote_runtime.py::TestCertificates::test_certificate_of_an_unknown_authority_is_refused",
            "tests/runtime/test_remote_runtime.py::TestCertificates::test_certificate_for_another_name_is_refused",
            "tests/runtime/test_remote_runtime.py::TestCertificates::test_expired_certificate_is_refused",
            "tests/runtime/test_remote_runtime.py::TestAddress::test_unsafe_address_is_refused_without_quoting_a_password",
        ),
        is_blocker=True,
    ),
    Threat(
        "S03",
        "A page in the user's browser calls the server, by DNS rebinding or by a form",
        "An `Origin` and a foreign `Host` are refused on every route, even with the key; a form is not an action; "
        "there are no cookies and no CORS",
        (
            "tests/runtime/server/test_app.py::TestGuard::test_browsers_and_foreign_hosts_are_refused_with_any_key",
            "tests/runtime/server/test_request_guard.py::TestBrowsers::test_browser_requests_are_refused",
            "tests/runtime/server/test_request_guard.py::TestBrowsers::test_form_content_types_are_refused_even_with_the_key",
            "tests/runtime/server/test_lease.py::TestTls::test_network_address_requires_tls_and_its_name",
            "tests/serve/test_serve.py::test_foreign_host_name_that_resolves_here_is_refused",
            "tests/serve/test_serve.py::test_websocket_requires_token_and_origin",
        ),
        is_blocker=True,
    ),
    Threat(
        "S04",
        "Commands find the key: in `ps`, environments, logs, core dumps, memory",
        "The file is removed before the first command; the server's memory cannot be read, and there is no core dump",
        (
            "tests/runtime/server/test_session_key.py::test_commands_cannot_find_the_key",
            "tests/runtime/server/test_session_key.py::test_search_finds_an_exposed_key",
            "tests/runtime/server/test_session_key.py::test_key_is_neither_logged_nor_left_in_a_file",
            "tests/runtime/test_remote_runtime.py::TestKey::test_key_is_in_no_message_log_or_frame",
            "tests/runtime/server/test_server.py::TestHiding::test_commands_have_the_users_umask_and_dump_no_core",
        ),
    ),
    Threat(
        "S05",
        "Clients without the key block the server: headers byte by byte, endless bodies, thousands of connections",
        "A client that has not shown the key is disconnected after 10 s, the oldest of a thousand at once, but never"
        " one that has sent half of the key; bodies are bounded in size and time; clients with the key are answered "
        "meanwhile",
        (
            "tests/runtime/server/test_request_guard.py::TestStrangers"
            "::test_slow_client_is_served_while_400_connections_a_second_are_opened",
            "tests/runtime/server/test_request_guard.py::TestStrangers"
            "::test_connection_with_half_of_the_key_is_not_closed_for_others",
            "tests/runtime/server/test_request_guard.py::TestStrangers::test_slow_strangers_do_not_block_a_client",
            "tests/runtime/server/test_request_guard.py::TestStrangers::test_number_of_stranger_connections_is_limited",
            "tests/runtime/server/test_request_guard.py::TestStrangers::test_request_without_the_key_does_not_extend_the_timeout",
            "tests/runtime/server/test_app.py::TestGuard::test_silent_connection_is_closed",
            "tests/runtime/server/test_app.py::TestBodies::test_slow_body_is_refused",
            "tests/runtime/server/test_app.py::TestBodies::test_json_body_over_8_mib_is_refused",
        ),
    ),
    Threat(
        "S06",
        "Another server answers: one that was started again at the same address, or an impostor",
        "Requests and answers name one start of one server; another one carries out nothing, and the client reports "
        "that its sandbox is gone; a request that arrives twice or late is carried out once; redirects are not "
        "followed",
        (
            "tests/runtime/server/test_identity.py::test_request_for_another_server_process_is_refused",
            "tests/runtime/server/test_identity.py::test_server_without_identity_is_noticed",
            "tests/contract/test_life.py::TestDeathOfTheServer::test_dead_server_is_reported_and_a_new_start_replaces_it",
            "tests/runtime/server/test_answer_cache.py::test_repeated_request_runs_the_action_once",
            "tests/runtime/server/test_answer_cache.py::test_deleted_action_is_interrupted_and_not_run_again",
            "tests/runtime/test_remote_runtime.py::TestConnections::test_certificate_of_another_host_is_refused",
        ),
    ),
    Threat(
        "S07",
        "Commands that do not end, or leave hidden processes behind",
        "Everything that a command started ends with the sandbox within 2 s, and an interrupt goes from INT to KILL",
        (
            "tests/runtime/server/test_server.py::TestEnding::test_signal_ends_the_server_and_its_processes",
            "tests/runtime/server/test_bash_ends.py::TestInterrupt::test_cancelling_interrupts_and_the_shell_stays_usable",
            "tests/runtime/isolation/test_confinement.py::test_no_process_survives_the_end",
            "tests/contract/test_life.py::TestEnding::test_closing_leaves_no_process",
            "tests/campaign/test_campaign.py::TestShells"
            "::test_interrupted_command_leaves_a_working_shell_and_no_process",
        ),
    ),
    Threat(
        "S08",
        "A fork bomb",
        "The kernel limits the number of processes; if no process can be started any more, what was left running is "
        "ended, so that the next command works; the bomb ends with the sandbox",
        (
            "tests/runtime/isolation/test_confinement.py::test_fork_bomb_is_limited_and_ends_with_the_sandbox",
            "tests/runtime/isolation/test_confinement.py::test_memory_processes_and_file_size_are_limited",
            "tests/docker/test_server.py::test_fork_bomb_that_exhausts_processes_is_ended_and_reported",
        ),
        is_blocker=True,
    ),
    Threat(
        "S09",
        "A memory bomb",
        "Memory is limited, for all processes together where the kernel allows it; a process that asks for more is "
        "killed, the model is told why, and the server survives",
        (
            "tests/runtime/isolation/test_confinement.py::test_control_group_limits_all_processes_together",
            "tests/runtime/isolation/test_confinement.py::test_memory_processes_and_file_size_are_limited",
            "tests/docker/test_server.py::test_out_of_memory_kill_is_reported_and_counted",
            "tests/runtime/test_local_runtime.py::test_commands_are_killed_before_the_server_when_memory_runs_out",
        ),
        is_blocker=True,
    ),
    Threat(
        "S10",
        "A disk bomb",
        "Temporary files are limited and in memory; a file has a size limit; what fills the workspace's disk, with "
        "bytes or with files, is ended while some space is left, and the event log continues when there is space "
        "again",
        (
            "tests/runtime/test_shortage_messages.py::TestDisk"
            "::test_command_that_fills_the_disk_is_ended_and_the_conversation_continues",
            "tests/runtime/test_shortage_messages.py::TestDisk::test_shell_that_fills_the_disk_is_replaced",
            "tests/runtime/test_shortage_messages.py::TestDisk::test_command_that_uses_all_inodes_is_ended",
            "tests/runtime/isolation/test_confinement.py::test_temporary_files_are_limited_and_not_on_the_host_disk",
            "tests/runtime/isolation/test_confinement.py::test_memory_processes_and_file_size_are_limited",
            "tests/store/test_store.py::test_appends_succeed_again_after_a_full_disk",
        ),
    ),
    Threat(
        "S11",
        "A cell that never ends, or ignores an interrupt",
        "It is interrupted when its time is over; a kernel that does not react within 2 s is replaced, and the "
        "observation says so",
        (
            "tests/runtime/plugins/test_jupyter_ends.py::test_cell_is_interrupted_at_its_timeout_and_its_output_kept",
            "tests/runtime/plugins/test_jupyter_ends.py::test_kernel_that_ignores_interrupts_is_replaced_and_reported",
        ),
    ),
    Threat(
        "S12",
        "A kernel dies: killed, out of memory, by an error, at an import",
        "One observation says so, and the next cell finds another kernel",
        (
            "tests/runtime/plugins/test_jupyter_ends.py::test_death_of_a_kernel_is_reported_once",
            "tests/runtime/plugins/test_jupyter_ends.py::TestStart::test_kernel_that_hangs_at_start_is_reported",
            "tests/campaign/test_campaign.py::TestKernels::test_dead_kernel_is_reported_once_and_replaced",
        ),
        is_blocker=True,
    ),
    Threat(
        "S13",
        "Messages to a kernel that others made, and other users of the machine",
        "Its sockets are in a folder of its owner only, and messages that are unsigned or repeated are dropped",
        (
            "tests/runtime/plugins/test_jupyter_ends.py::TestStart::test_sockets_are_private_and_messages_signed",
            "tests/runtime/plugins/test_jupyter_ends.py::TestAbuse::test_unsigned_and_repeated_messages_are_dropped_and_counted",
        ),
    ),
    Threat(
        "S14",
        "Floods of output, comms, pictures and tracebacks, and cells that ask for input",
        "Everything is limited, the observation says what was left out, and input is refused with a message",
        (
            "tests/runtime/plugins/test_jupyter_ends.py::TestAbuse::test_flood_of_displays_and_comms_is_limited",
            "tests/runtime/plugins/test_jupyter_ends.py::TestAbuse::test_endless_flood_ends_at_the_timeout",
            "tests/runtime/plugins/test_jupyter_ends.py::TestAbuse::test_huge_traceback_and_result_are_truncated",
            "tests/runtime/plugins/test_jupyter.py::TestText::test_input_is_refused_with_a_message",
        ),
    ),
    Threat(
        "S15",
        "A container is removed, stopped, paused, out of memory; the engine goes away; the image is missing, the "
        "name is taken, another screen has it",
        "Each is reported within ten seconds with what to do next, the next action works, and nothing is left behind",
        (
            "tests/docker/test_faults.py::TestFaults::test_missing_container_is_reported_and_replaced",
            "tests/docker/test_faults.py::TestFaults::test_paused_container_is_reported_and_resumed",
            "tests/docker/test_faults.py::TestFaults::test_server_stopped_by_its_commands_is_replaced",
            "tests/docker/test_faults.py::TestFaults::test_server_killed_by_its_commands_is_replaced",
            "tests/docker/test_faults.py::TestFaults::test_out_of_memory_container_is_reported",
            "tests/docker/test_faults.py::TestTheEngine::test_action_continues_while_the_engine_is_down",
            "tests/docker/test_faults.py::TestTheEngine"
            "::test_container_that_ended_with_the_engine_is_replaced_when_the_engine_returns",
            "tests/docker/test_faults.py::TestStarting::test_missing_image_is_reported",
            "tests/docker/test_faults.py::TestStarting::test_taken_container_name_is_reported_and_left_alone",
            "tests/docker/test_faults.py::TestStarting::test_second_screen_is_refused_and_the_first_continues",
            "tests/docker/test_faults.py::TestFleet::test_abandoned_containers_are_removed_and_used_ones_stay",
            "tests/runtime/docker/test_image.py::TestFailures::test_missing_engine_is_reported",
            "tests/campaign/test_campaign.py::TestContainers"
            "::test_container_fault_is_reported_once_and_the_next_command_works",
        ),
        is_blocker=True,
    ),
    Threat(
        "S16",
        "An escape from a container",
        "It has no capabilities, no new privileges, a read-only root file system, no network, the user's own "
        "numbers, and limits; the attempts that bubblewrap stops are stopped; `handloom doctor` warns of an old runc",
        (
            "tests/docker/test_isolation.py::test_no_escape_attempt_succeeds",
            "tests/docker/test_isolation.py::test_container_is_hardened",
            "tests/docker/test_isolation.py::test_container_listens_on_no_port",
            "tests/docker/test_isolation.py::test_unprotectable_workspace_is_refused",
            "tests/runtime/docker/test_container_spec.py"
            "::test_container_has_no_capabilities_no_network_and_a_read_only_root",
        ),
        is_blocker=True,
    ),
    Threat(
        "S17",
        "Files that the host runs later: hooks and settings of git, start files, tasks of editors, `.envrc`, "
        "`.mcp.json`, at any depth, also if they do not exist yet",
        "They are read-only if they exist at the start, together with what git's settings and hooks point at; at the"
        " top of the workspace, new ones are moved aside when their command ends; deeper ones are found without "
        "running anything, and reported once; servers that a workspace names run in the sandbox; Handloom loads none"
        " of it",
        (
            "tests/runtime/isolation/test_confinement.py::test_no_escape_attempt_succeeds",
            "tests/runtime/isolation/test_confinement.py::test_protected_name_that_appears_is_moved_aside_after_the_command",
            "tests/runtime/isolation/test_git_config.py::test_executable_target_cannot_be_changed_in_the_sandbox",
            "tests/mcp/test_isolated.py::test_modules_beside_the_script_have_no_effect_outside",
            "tests/runtime/isolation/test_submodules.py::test_hostile_submodule_is_moved_aside",
            "tests/runtime/isolation/test_workspace_audit.py::test_nested_repositories_and_names_are_protected",
            "tests/runtime/isolation/test_workspace_audit.py::test_every_attack_path_is_blocked_or_reported",
            "tests/runtime/isolation/test_workspace_audit.py::test_audit_finds_everything_that_would_run",
            "tests/runtime/isolation/test_workspace_audit.py::test_hostile_files_do_not_stop_the_audit",
            "tests/runtime/isolation/test_git_config.py::test_dangerous_settings_are_found",
            "tests/runtime/isolation/test_git_config.py::test_random_configs_are_parsed_like_git_or_reported",
            "tests/sandbox/test_leftovers.py::test_each_leftover_is_reported_once",
            "tests/sandbox/test_leftovers.py::test_repository_made_by_the_agent_is_reported_with_settings_and_hooks",
            "tests/journeys/test_hostile_repositories.py::test_work_in_a_hostile_repository_runs_nothing_on_the_host",
        ),
        is_blocker=True,
    ),
    Threat(
        "S18",
        "Data is sent away: by HTTP, DNS, ICMP, UDP, IPv6, sockets of the host, a repository",
        "There is no network; a proxy on the host calls the hosts that the user allowed and resolves their names "
        "itself. The user is asked about a host only if that proxy refused it, whatever a command prints",
        (
            "tests/runtime/isolation/test_confinement.py::test_no_escape_attempt_succeeds",
            "tests/docker/test_isolation.py::test_no_escape_attempt_succeeds",
            "tests/docker/test_isolation.py::test_container_reaches_only_allowed_hosts",
            "tests/runtime/isolation/test_confinement.py::test_escape_attempts_succeed_without_isolation",
            "tests/runtime/isolation/test_egress_proxy.py::test_sandbox_reaches_only_allowed_hosts",
            "tests/runtime/isolation/test_egress_proxy.py::test_without_allowed_hosts_the_proxy_refuses_everything",
            "tests/runtime/isolation/test_refusals.py::test_hostile_output_is_bounded_and_makes_no_offer",
            "tests/runtime/isolation/test_refusals.py::test_only_names_of_the_internet_without_wildcards_are_offered",
        ),
        is_blocker=True,
    ),
    Threat(
        "S19",
        "The proxy is used to reach the host, its network or the metadata of a cloud: other spellings, redirects, "
        "DNS rebinding",
        "The address that a name resolves to is checked, in all forms of IPv4 and IPv6, and that very address is "
        "called; each hop is checked again",
        (
            "tests/runtime/isolation/test_ssrf.py::test_private_address_is_refused_in_every_spelling",
            "tests/runtime/isolation/test_ssrf.py::test_ambiguous_url_is_refused",
            "tests/runtime/isolation/test_ssrf.py::test_dns_rebinding_reaches_the_checked_address",
            "tests/runtime/isolation/test_ssrf.py::test_redirect_to_a_private_address_is_refused",
            "tests/runtime/isolation/test_ssrf.py::test_host_header_does_not_choose_the_destination",
            "tests/runtime/isolation/test_ssrf.py::test_curl_in_a_sandbox_reaches_no_private_address",
            "tests/runtime/isolation/test_egress_proxy.py::test_name_with_one_private_address_is_refused",
        ),
    ),
    Threat(
        "S20",
        "There is no isolation",
        "Without bubblewrap the screen shows why, all the time, and every action asks; if isolation is required, "
        "nothing starts without it; with isolation, every runtime passes the same tests",
        (
            "tests/runtime/isolation/test_confinement.py::test_no_escape_attempt_succeeds",
            "tests/runtime/isolation/test_confinement.py::test_required_isolation_that_fails_starts_nothing",
            "tests/runtime/isolation/test_confinement.py::test_broken_protection_ends_the_sandbox",
            "tests/sandbox/test_setup.py::test_missing_isolation_is_reported_once_the_sandbox_runs",
            "tests/tui/workspace/test_footer.py::test_every_width_is_kept_and_state_and_warning_stay",
            "tests/contract/test_life.py::TestAnswers::test_every_kind_of_action_gets_one_observation",
        ),
    ),
    Threat(
        "S21",
        "Something types into the terminal, or reaches another one",
        "Each shell has its own terminal, there is no multiplexer, and system calls that type into terminals are "
        "filtered",
        (
            "tests/runtime/isolation/test_confinement.py::test_no_escape_attempt_succeeds",
            "tests/runtime/server/test_bash_session.py::TestSpoofing::test_printing_the_markers_does_not_end_a_command",
        ),
    ),
    Threat(
        "S22",
        "A program gets around a rule that denies a file or a host, in a disguise that reading commands cannot see",
        "Existing files that are denied are hidden or read-only by mounts, under each of their names; the proxy "
        "refuses denied hosts and names the rule. Other rules are only checked: names that do not exist yet, words of "
        "commands, and copies such as git's history",
        (
            "tests/runtime/isolation/test_denied_mounts.py::test_hidden_file_cannot_be_read_by_any_path",
            "tests/runtime/isolation/test_denied_mounts.py::test_read_only_file_cannot_be_changed_by_any_path",
            "tests/runtime/isolation/test_denied_mounts.py::test_file_tools_cannot_reach_denied_files",
            "tests/runtime/isolation/test_denied_mounts.py::test_unwritable_workspace_and_its_repository_are_read_only",
            "tests/runtime/isolation/test_egress_proxy.py::test_deny_rule_blocks_a_host_for_all_programs_of_a_sandbox",
            "tests/runtime/isolation/test_egress_proxy.py::test_denied_host_is_refused_and_the_rule_named",
            "tests/docker/test_isolation.py::test_denied_paths_and_hosts_are_unreachable",
            "tests/mcp/test_isolated.py::test_denied_paths_are_unreachable",
            "tests/security/test_sandbox_rules.py::test_sandbox_enforces_rules_for_scripts",
            "tests/security/test_sandbox_rules.py::test_enforcement_of_each_rule",
        ),
    ),
    Threat(
        "S23",
        "Client and server have different versions",
        "Both name the version of the protocol; another one is refused before anything is carried out, with what to do",
        (
            "tests/runtime/server/test_identity.py::test_client_reports_a_server_of_another_version",
            "tests/runtime/server/test_identity.py::test_request_with_another_version_is_refused",
            "tests/runtime/server/test_identity.py::test_v0_client_without_identity_headers_is_served",
        ),
    ),
    Threat(
        "S24",
        "While the user has the terminal, the agent or a program in it reads what is typed, or acts at the same time",
        "The agent's commands wait until the user gives the terminal back; text that is typed without echo is in no "
        "event; the model reads once what was done",
        (
            "tests/runtime/server/test_user_terminal.py::test_agents_command_waits_for_the_end_of_the_turn",
            "tests/runtime/server/test_user_terminal.py::test_password_appears_nowhere",
            "tests/runtime/server/test_user_terminal.py::test_password_of_a_program_without_echo_is_not_shown",
            "tests/user_control/test_user_terminal.py::test_terminal_session_is_stored_once_and_read_by_the_model",
        ),
    ),
    Threat(
        "S25",
        "A command is short but long once it is expanded, or written so that its effect cannot be seen",
        "A command is understood only if its syntax, its program and its options are in a table; every other one "
        "asks, and no pattern covers it. Judging a command is bounded in time and memory, runs nothing, and asks if "
        "it fails",
        (
            "tests/security/test_disguised.py::test_no_disguised_command_is_allowed",
            "tests/security/test_grammar.py::test_unsupported_command_asks_and_names_the_part",
            "tests/security/test_grammar.py::test_command_is_judged_with_effects_of_earlier_ones",
            "tests/security/test_grammar.py::test_failing_judgement_asks_with_its_error",
            "tests/security/test_risk_python.py::test_nothing_is_evaluated",
            "tests/security/test_fuzzed_commands.py::test_no_fuzzed_command_is_slow_or_let_through",
            "tests/security/test_fuzzed_commands.py::test_doubling_variables_are_limited",
            "tests/security/test_risk_shell.py::test_no_wrapping_lets_bad_commands_through",
        ),
    ),
    Threat(
        "X01",
        "A secret is where it does not belong: a database, a log, a recording, an export, a request, an argument",
        "Secrets are stored by reference, given only to the command that names them, and redacted in every usual "
        "encoding before anything is stored, shown or sent; a test searches every byte for sixty-five canaries",
        (
            "tests/secrets/test_canaries.py::test_no_canary_is_found_except_a_planted_one",
            "tests/secrets/test_command_secrets.py::test_command_gets_the_value_and_the_next_does_not",
            "tests/secrets/test_command_secrets.py::test_secret_is_not_in_arguments_history_or_other_environments",
            "tests/docker/test_command_secrets.py::test_secret_is_in_no_engine_data_process_or_file",
        ),
        is_blocker=True,
    ),
    Threat(
        "X02",
        "A secret passes the redaction: in pieces, in another encoding, over several lines",
        "Streams are redacted at every cut, also between colour codes; values in ten encodings, as shells and programs"
        " quote them, in dumps and in wrapped lines; long values line by line; secrets that are known only at an "
        "export, in each format. What a program itself scrambles, reverses or prints one letter a line is not "
        "detected",
        (
            "tests/secrets/test_layouts.py::test_layouts_in_a_stream_are_redacted_at_every_cut",
            "tests/secrets/test_layouts.py::test_dump_is_redacted_at_every_offset",
            "tests/secrets/test_layouts.py::test_wrapped_lines_are_redacted_at_every_offset",
            "tests/secrets/test_layouts.py::test_quoted_value_is_redacted",
            "tests/import_export/test_secret_scan.py::test_secret_split_by_colours_is_redacted_in_every_format",
            "tests/secrets/test_redacted_streams.py::test_secret_in_a_stream_is_redacted_at_every_cut",
            "tests/secrets/test_redacted_streams.py::test_secret_is_redacted_in_every_common_encoding",
        ),
    ),
    Threat(
        "X04",
        "A command prints a secret that is not known",
        "Keys and tokens are recognised by their form, redacted, and reported once in the log; digests and ids are "
        "left alone",
        (
            "tests/secrets/test_detector.py::test_log_reports_each_secret_once_and_contains_none",
            "tests/secrets/test_detector.py::test_detected_secret_is_redacted_before_it_is_stored",
            "tests/secrets/test_detector.py::test_no_false_positives_in_this_repository_and_the_standard_library",
        ),
    ),
    Threat(
        "X07",
        "A crash shows the values of variables on the terminal, or writes them into the log",
        "A traceback has lines of the program and no values; it is redacted, and so is each line of the log",
        (
            "tests/secrets/test_canaries.py::test_no_canary_is_found_except_a_planted_one",
            "tests/base/test_logs.py::test_secrets_are_redacted_in_every_line",
        ),
    ),
    Threat(
        "X11",
        "A keyring is locked or missing, and secrets are stored in a file unasked, or commands run without them "
        "unnoticed",
        "The error says what to do; the file is used if the user says so; a command reports what it lacks",
        (
            "tests/secrets/test_keyring.py::test_locked_keyring_is_reported_and_file_used_on_request",
            "tests/secrets/test_keyring.py::test_keyring_value_is_kept_and_unreachable_without_a_session",
        ),
    ),
)
