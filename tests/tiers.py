"""The two tiers of the tests: `make test` runs the first one, `make test-all` both.

The first tier has every package's behaviour, runs within minutes on two cores, with and without root, and needs no
container engine, no Chromium and no X server. `SECOND_TIER` is the only place that says what is left out of it, and
why. A test belongs to the first group that matches. `make documents` writes this table into `docs/contributing.md`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

LIMIT_S = 5.0
"""A test of the first tier may take this long on a machine that does nothing else."""


@dataclass(frozen=True)
class Group:
    """A group of tests that are in the second tier for the same reason."""

    title: str
    reason: str
    marks: tuple[str, ...] = ()
    """A test with one of these markers belongs here."""
    paths: tuple[str, ...] = ()
    """A test whose id starts with one of these belongs here. Ids are relative to the top, with slashes."""

    variants: tuple[str, ...] = ()
    """If given, only tests belong here whose id has one of these as well."""

    def has(self, node_id: str, marks: Collection[str]) -> bool:
        """Whether the test belongs to this group."""
        if self.variants and not any(variant in node_id for variant in self.variants):
            return False
        return any(mark in marks for mark in self.marks) or node_id.startswith(self.paths)


SECOND_TIER: tuple[Group, ...] = (
    Group("Containers", "need a container engine and build its image, which takes minutes", marks=("docker",)),
    Group("Browser", "need Chromium, which takes seconds to start", marks=("browser",)),
    Group("Terminals of X", "need an X server and programs that draw in it", marks=("xterm",)),
    Group("Alone", "measure time or memory, or take the processors from other tests", marks=("alone",)),
    Group("Bench", "run every area of the bench once, with small counts", paths=("tests/bench/",)),
    Group("Peers", "compare with third-party programs, which are installed once", paths=("tests/peers/",)),
    Group(
        "Planted bugs",
        "plant a bug and run the tests that should notice it",
        paths=(
            "tests/mutants/test_mutants.py::test_mutant_is_killed_by_a_passing_test_and_the_tree_is_unchanged",
            "tests/mutants/test_mutants.py::test_tests_of_a_module_match",
        ),
    ),
    Group("Campaigns", "run kills, faults and generated inputs, in a short form", paths=("tests/campaign/",)),
    Group(
        "Journeys",
        "start the whole program in a real terminal for each test",
        paths=("tests/journeys/",),
    ),
    Group(
        "Installation",
        "build the wheel, install it, and start the whole program for each test",
        paths=("tests/packaging/",),
    ),
    Group(
        "Manual",
        "run every command of the README and the manual that needs no user, container engine or network",
        paths=(
            "tests/manual/test_commands.py::test_commands_of_a_page_run",
            "tests/manual/test_commands.py::test_command_opens_the_workspace",
        ),
    ),
    Group(
        "Editors",
        "start the whole program for each test and speak to it as an editor does",
        paths=("tests/acp/test_sessions.py", "tests/acp/test_hostile.py", "tests/acp/test_other_agent.py"),
    ),
    Group(
        "Contract",
        "check the contract of runtimes for the local sandbox without isolation and the remote one; the first tier"
        " checks it with isolation and in one process",
        paths=("tests/contract/",),
        variants=("[local", "[remote"),
    ),
    Group(
        "Model checks",
        "try the controller's decisions in thousands of interleavings",
        paths=("tests/controller/test_decide_model_check.py",),
    ),
    Group(
        "Kernels",
        "kill, flood and replace Jupyter kernels, each of which takes a second to start, or draw figures, for which a "
        "new machine reads its fonts first",
        paths=(
            "tests/runtime/plugins/test_jupyter_ends.py",
            "tests/runtime/plugins/test_jupyter_server.py",
            "tests/runtime/plugins/test_jupyter.py::TestLive::test_flushed_output_is_shown_while_the_interpreter_is_held",
            "tests/runtime/plugins/test_jupyter.py::TestPictures::test_figure",
            "tests/runtime/plugins/test_jupyter.py::TestPlace::test_nothing_is_left_in_the_home_folder",
        ),
    ),
    Group("Clusters", "start a cluster of Ray, with several nodes", marks=("ray",)),
    Group(
        "Patience",
        "wait until a time limit of the program is over",
        paths=(
            "tests/mcp/test_supervisor.py::test_hanging_host_is_replaced_with_its_servers",
            "tests/mcp/test_faults.py::test_other_tools_work_and_the_error_is_returned_in_time",
            "tests/mcp/test_conversation.py::test_the_first_model_call_waits_for_a_slow_server",
            "tests/runtime/server/test_lease.py::TestTls::test_clients_without_handshake_do_not_block_others",
            "tests/runtime/test_reconnecting_client.py::TestPatience",
            "tests/runtime/test_reconnecting_client.py::test_action_runs_once_wherever_the_link_breaks",
        ),
    ),
    Group(
        "Model hosts",
        "start several hosts of models, each of which takes seconds",
        paths=(
            "tests/secrets/test_provider_keys.py::test_endpoint_with_a_key_is_used_now_and_after_a_restart",
            "tests/secrets/test_provider_keys.py::test_key_of_a_provider_reaches_a_host_that_runs_already",
            "tests/secrets/test_provider_keys.py::test_new_key_replaces_the_stored_one",
            "tests/llm/test_model_host.py::test_scripted_server_runs_standalone",
            "tests/llm/test_model_host.py::test_host_without_input_ends_and_prints_only_that_it_was_ready",
        ),
    ),
    Group("Long conversations", "play hundreds of steps", paths=("tests/memory/test_long_run.py",)),
    Group(
        "Repeated runs",
        "run whole recorded conversations again",
        paths=("tests/rerun/test_runner.py", "tests/tui/rerun/test_screen.py::test_session_is_rerun_and_compared"),
    ),
    Group(
        "Command line",
        "start the whole program for each test",
        paths=(
            "tests/security/test_permissions_commands.py",
            "tests/tui/export/test_cli.py",
            "tests/batch/test_batch.py",
        ),
    ),
    Group(
        "Canaries", "look for secrets in every byte that the program writes", paths=("tests/secrets/test_canaries.py",)
    ),
    Group("Keyrings", "start a keyring service and a session bus", paths=("tests/secrets/test_keyring.py",)),
    Group(
        "Endless input",
        "feed documents, answers and folders that never end until a limit stops them",
        paths=(
            "tests/llm/test_model_host.py::test_event_without_end_does_not_fill_the_memory",
            "tests/runtime/server/test_documents.py::test_document_that_expands_endlessly_is_stopped",
            "tests/runtime/server/test_safe_paths.py::test_very_deep_folder_is_walked",
            "tests/runtime/server/test_user_terminal.py::test_turn_survives_interrupt_and_suspend_keys",
        ),
    ),
    Group(
        "Whole screens",
        "draw every screen in every size, language, theme or kind of text",
        paths=(
            "tests/tui/workspace/test_i18n.py::test_every_text_of_the_frame_is_translated",
            "tests/tui/settings/test_settings.py::test_every_field_has_a_control_that_writes_it",
            "tests/tui/replay/test_same_screens.py",
            "tests/tui/terminal_io/test_glyphs.py::test_all_screens_are_ascii",
            "tests/tui/workspace/test_sizes.py::test_question_keeps_prompt_and_highlighted_row_visible",
            "tests/tui/terminal_io/test_hostile_workspace.py::test_hostile_events_write_no_foreign_sequence",
        ),
    ),
    Group(
        "Traced processes",
        "run a program under strace",
        paths=("tests/architecture/test_replays.py",),
    ),
)
"""Every group, in the order in which a test looks for its own."""


def group_of(node_id: str, marks: Collection[str]) -> Group | None:
    """The group of the second tier that a test belongs to; None for a test of the first tier."""
    return next((group for group in SECOND_TIER if group.has(node_id, marks)), None)


def may_be_full(path: str, text: str) -> bool:
    """Whether a file may have tests of the second tier, by its path and the markers in its text."""
    return any(
        any(f"mark.{mark}" in text for mark in group.marks)
        or any(path.startswith(wanted.partition("::")[0]) for wanted in group.paths)
        for group in SECOND_TIER
    )


def table() -> str:
    """The groups as a Markdown table."""
    lines = ["| group | why it is not in `make test` |", "|---|---|"]
    lines += [f"| {group.title} | They {group.reason}. |" for group in SECOND_TIER]
    return "\n".join(lines)
