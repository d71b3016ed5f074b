"""The variables of the agent's programs: changes since a revision, and refused ones."""

from __future__ import annotations

import pytest

from core.sandbox_types import MAX_VALUE_BYTES, MAX_VARIABLES
from runtime.server.shell import Environment


def test_changes_since_a_revision_have_current_values() -> None:
    environment = Environment({"A": "1", "B": "2"})
    environment.change({"A": "1"})
    assert environment.revision == 0, "nothing has changed"
    environment.change({"A": "3", "B": None, "C": None})
    seen = environment.revision
    environment.change({"A": "4"})
    assert dict(environment) == {"A": "4"}
    assert environment.changes_since(0) == {"A": "4", "B": None}
    assert environment.changes_since(seen) == {"A": "4"}
    assert environment.changes_since(environment.revision) == {}


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "UID", "__handloom_nonce", "ä", "A" * 201])
def test_invalid_variable_name_changes_nothing(name: str) -> None:
    environment = Environment({})
    with pytest.raises(ValueError, match="cannot be the name of a variable"):
        environment.change({"FINE": "1", name: "x"})
    assert dict(environment) == {}


@pytest.mark.parametrize(
    ("value", "why"), [("a\0b", "has a NUL"), ("x" * (MAX_VALUE_BYTES + 1), "has over 100,000 bytes")]
)
def test_value_that_no_program_can_get_is_refused(value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Environment({}).change({"A": value})


def test_number_of_variables_is_limited() -> None:
    with pytest.raises(ValueError, match="at most"):
        Environment({}).change({f"A{number}": "" for number in range(MAX_VARIABLES + 1)})
