"""The registry of plugins: what a server can do beyond shell, files and plan.

A plugin brings rows for the executor's table. It is one file beside this one and one entry in PLUGINS; two
plugins that claim one action are refused when the server starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from runtime.server.executor import Table


class Plugin(Protocol):
    """Something that carries out actions and has to be started and ended with the server."""

    @property
    def table(self) -> Table:
        """Its rows; complete before `start`."""
        ...

    async def start(self) -> None:
        """Make it ready. Raises what keeps it from that; the server then does not start."""
        ...

    async def aclose(self) -> None:
        """End it and everything that it started."""
        ...


PLUGINS: Mapping[str, Callable[[str], Plugin]] = {}
"""By the name that `--plugins` takes: what makes it, given the working folder."""


def check_names(names: Iterable[str]) -> list[str]:
    """The names as they are, without repetition. Raises ValueError for one that is not known."""
    wanted = list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in PLUGINS]:
        known = ", ".join(sorted(PLUGINS)) or "none"
        raise ValueError(f"no plugin is called {', '.join(unknown)}; known: {known}")
    return wanted
