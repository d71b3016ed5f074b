"""What can go wrong with an image, in one or two sentences that say what to do next.

Pure: from the engine's words to an error of core/errors.py. The engine tells kinds apart by text alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.errors import ConfigurationError, HandloomError, RuntimeUnavailableError

LAST_LINES = 12
"""Of a failing step's output: enough for the reason, few enough for a screen."""
ANOTHER_BASE = "Name another with --base, or as `base` under [docker] in config.toml."

_NO_SUCH_IMAGE = re.compile(r"manifest unknown|not found|access denied|does not exist|invalid reference", re.IGNORECASE)
_NO_SPACE = re.compile(r"no space left on device", re.IGNORECASE)
_NO_NETWORK = re.compile(
    r"temporary failure resolving|could not resolve|name resolution|name or service not known|no such host"
    r"|network is unreachable|connection refused|NewConnectionError|connection timed out|i/o timeout",
    re.IGNORECASE,
)
_STATUS = re.compile(r"returned a non-zero code: (\d+)")


class EngineError(Exception):
    """The engine refused, or its stream told of an error."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status
        """Of HTTP; 0 for an error within a stream that began well."""


def base_failed(base: str, error: EngineError) -> HandloomError:
    """The base is not on this machine and could not be fetched."""
    reason = str(error)
    if _NO_SPACE.search(reason):
        return no_space()
    if error.status in (400, 404) or (_NO_SUCH_IMAGE.search(reason) and not _NO_NETWORK.search(reason)):
        return ConfigurationError(
            f"There is no image {base} here or in its registry, or it wants a `docker login`. {ANOTHER_BASE}"
        )
    return RuntimeUnavailableError(
        f"The image {base} is not on this machine and cannot be fetched ({reason}). "
        "Connect to the network and try again, or name an image that is here with --base."
    )


def step_failed(step: str, reason: str, said: Sequence[str]) -> RuntimeUnavailableError:
    """A step of the build failed; `said` is what it printed."""
    if _NO_SPACE.search("\n".join([reason, *said])):
        return no_space()
    advice = (
        "The build has no network. Connect and try again, or take a base that has all packages."
        if _NO_NETWORK.search("\n".join(said))
        else f"Try again, or take another base. {ANOTHER_BASE}"
    )
    status = _STATUS.search(reason)
    how = f"ended with status {status[1]}" if status else f"failed ({reason})"
    last = "".join(f"\n    {line}" for line in said[-LAST_LINES:])
    return RuntimeUnavailableError(f"The image was not built: the step “{step}” {how}.{last}\n{advice}")


def no_space() -> RuntimeUnavailableError:
    """The engine's disk is full."""
    return RuntimeUnavailableError(
        "The container engine's disk is full. `docker system df` shows what fills it; make room, then try again."
    )
