"""Environment: the variables of the agent's programs, which the user may change while the sandbox runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from core.sandbox_types import check_variables


class Environment(Mapping[str, str]):
    """The variables by name.

    Programs that are started after a change have it from the start. The shell and the kernel, which already run, ask
    for the changes since the revision that they know.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._changed: list[str] = []

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def revision(self) -> int:
        """The number of changes so far."""
        return len(self._changed)

    def change(self, variables: Mapping[str, str | None]) -> None:
        """Set these variables; None removes one. Raises ValueError, which names the variable, and changes nothing."""
        check_variables(variables)
        for name, value in variables.items():
            if self._values.get(name) == value:
                continue
            self._changed.append(name)
            if value is None:
                del self._values[name]
            else:
                self._values[name] = value

    def changes_since(self, revision: int) -> dict[str, str | None]:
        """Return the variables that have changed since, with their values now; None for one that was removed."""
        return {name: self._values.get(name) for name in self._changed[revision:]}
