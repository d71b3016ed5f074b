"""Bugs that take away what is held against a row of docs/threats.md, each with the test of the row that has to fail.

`python -m tests.mutants --threats` plants them. `old` is in its file exactly once; a short test holds that, so that a
change of the program takes its row along. Rows that have no bug here yet are missing, not exempt.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """The bug of one row. `test` is one of the row's."""

    number: str
    path: str
    old: str
    new: str
    test: str


PLANTED = (
    Planted(
        "B13",
        "runtime/plugins/browser/observing.py",
        "os.O_NOFOLLOW, 0o600)",
        "os.O_NOFOLLOW, 0o644)",
        "tests/runtime/plugins/test_browser.py::TestReading::test_its_picture_is_kept_for_its_owner_alone",
    ),
    Planted(
        "I02",
        "core/exchange/bounded_json.py",
        "    if len(found) != len(pairs):",
        "    if False:",
        "tests/exchange/test_bounded_json.py::TestWhatIsRefused::test_it_says_why",
    ),
    Planted(
        "I10",
        "runtime/server/beneath.py",
        'if not behind and root.path != "/":',
        "if False:",
        "tests/runtime/test_beneath.py::test_what_leads_outside_is_refused_and_the_roots_are_named",
    ),
    Planted(
        "I12",
        "runtime/server/beneath.py",
        "    if is_kernel_interface(fd):",
        "    if False:",
        "tests/runtime/test_beneath.py::test_what_the_kernel_answers_itself_is_refused_at_once",
    ),
    Planted(
        "L02",
        "core/llm/retry.py",
        "if attempt == policy.attempts:",
        "if attempt == policy.attempts + 1:",
        "tests/llm/test_retry.py::test_ten_thousand_sequences_of_failures_end_within_their_tries_and_waits",
    ),
    Planted(
        "L05",
        "core/agent/answers.py",
        " and wanted not in used else fresh\n    while chosen in used:",
        " else fresh\n    while False:",
        "tests/agent/test_answers.py::test_ids_that_are_empty_double_or_used_before_are_replaced",
    ),
    Planted(
        "L08",
        "core/controller/stuck.py",
        "range(2, MAX_PERIOD + 1)",
        "range(2, MAX_PERIOD)",
        "tests/controller/test_stuck.py::test_circles_of_any_length_up_to_eight",
    ),
    Planted(
        "M03",
        "core/mcp/pins.py",
        'if not isinstance(entry, dict) or entry.get("fingerprint") != spec.fingerprint:',
        "if not isinstance(entry, dict):",
        "tests/mcp/test_supervisor.py::test_another_command_asks_again",
    ),
    Planted(
        "R03",
        "tui/model/held.py",
        "is_early = at - self.appeared_at < self.guard_s",
        "is_early = False",
        "tests/tui/frame/test_question_list.py::test_keys_of_the_first_moments_are_not_taken_and_letters_reach_the_prompt",
    ),
    Planted(
        "S01",
        "runtime/server/guard.py",
        "if not hmac.compare_digest(given, self._key):",
        "if False:",
        "tests/runtime/test_app.py::TestGuard::test_every_route_wants_the_key",
    ),
    Planted(
        "S03",
        "runtime/server/guard.py",
        'if "Origin" in request.headers or not self._is_ours(',
        "if not self._is_ours(",
        "tests/runtime/test_app.py::TestGuard::test_browsers_and_foreign_hosts_are_refused_with_any_key",
    ),
    Planted(
        "S06",
        "runtime/server/identity.py",
        "if request.headers.get(INSTANCE_HEADER, self.instance) != self.instance:",
        "if False:",
        "tests/runtime/test_identity.py::test_another_server_at_the_same_address_is_told_and_carries_out_nothing",
    ),
    Planted(
        "S19",
        "runtime/egress.py",
        "and not all(map(is_public, addresses))",
        "and not any(map(is_public, addresses))",
        "tests/runtime/test_egress.py::test_one_address_at_home_makes_a_name_suspect",
    ),
    Planted(
        "S23",
        "runtime/server/identity.py",
        "if version != str(PROTOCOL_VERSION):",
        "if False:",
        "tests/runtime/test_identity.py::test_a_request_in_another_version_is_refused",
    ),
)
