"""One container: pause, resume, remove, its status, and why it is gone.

Calls to the engine block, so each runs in a worker thread; none is made during an action. Every failure is a
RuntimeUnavailableError that says what to do next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, ParamSpec, TypeVar

import requests
from docker import DockerClient, errors

from core.errors import RuntimeUnavailableError
from runtime.docker.engine import engine_gone

P = ParamSpec("P")
T = TypeVar("T")

Status = Literal["created", "running", "paused", "restarting", "removing", "exited", "dead", "gone"]
RETRY_S = 0.2
"""Delay before a retry, because an engine that has just done the opposite needs a moment."""
KILL_STATUSES = (137, 143)
LOG_LINES = 3
SETTLE_S = 0.5
"""The engine notices a container's end some ten milliseconds after its clients do."""
PAUSED = "its container was paused from outside"


async def call_engine(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call to the engine in a thread. Raises RuntimeUnavailableError and `docker.errors.NotFound`.

    Cancelling does not end the call.
    """
    try:
        return await asyncio.to_thread(call, *args, **kwargs)
    except errors.NotFound:
        raise
    except errors.APIError as error:
        raise RuntimeUnavailableError(refused_message(str(error.explanation or error))) from error
    except (errors.DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error


def ended_message(why: str) -> str:
    """Return the message to the user about a sandbox that has ended or does not answer."""
    if why == PAUSED:
        return "The sandbox does not answer, because its container was paused from outside. The next action resumes it."
    return f"The sandbox has ended ({why}). Send a message to start a new one; files in the workspace are kept."


def refused_message(reason: str) -> str:
    """Return the message to the user about a request that the engine has refused."""
    reason = reason.strip().rstrip(".")
    if "no space left on device" in reason:
        return f"The disk of the container engine is full ({reason}). Free some of it, then try again."
    return f"The container engine refused: {reason}. Correct the settings of [docker], then try again."


class Container:
    """One container. It is found again by its `name`; calls to the engine use its `id`."""

    def __init__(self, client: DockerClient, id: str, name: str) -> None:
        self._client = client
        self.id = id
        self.name = name

    async def inspect(self) -> dict[str, Any] | None:
        """Return the engine's description; None if the container is gone. Raises RuntimeUnavailableError."""
        try:
            found: dict[str, Any] = await call_engine(self._client.api.inspect_container, self.id)
        except errors.NotFound:
            return None
        return found

    async def status(self) -> Status:
        """Return the container's status. Raises RuntimeUnavailableError."""
        found = await self.inspect()
        return "gone" if found is None else found["State"]["Status"]

    async def pause(self) -> None:
        """Freeze all its processes. Raises RuntimeUnavailableError."""
        await self._change_status("paused", self._client.api.pause)

    async def unpause(self) -> None:
        """Resume all its processes. Raises RuntimeUnavailableError."""
        await self._change_status("running", self._client.api.unpause)

    async def _change_status(self, status: Status, change: Callable[[str], None]) -> None:
        for last in (False, True):
            try:
                await call_engine(change, self.id)
                return
            except (RuntimeUnavailableError, errors.NotFound) as error:
                now = await self.status()
                if now == status:
                    return
                if last or now not in ("running", "paused"):
                    raise RuntimeUnavailableError(f"Its container is {now}, not {status}. Try again.") from error
                await asyncio.sleep(RETRY_S)

    async def rename(self, name: str) -> None:
        """Rename the container. Raises RuntimeUnavailableError."""
        try:
            await call_engine(self._client.api.rename, self.id, name)
        except errors.NotFound as error:
            raise RuntimeUnavailableError("Its container was removed from outside. Try again.") from error
        self.name = name

    async def remove(self) -> None:
        """Kill its processes and remove it, if it still exists. Raises RuntimeUnavailableError."""
        with suppress(errors.NotFound):
            await call_engine(self._client.api.remove_container, self.id, v=True, force=True)

    async def exit_reason(self) -> str:
        """Return why its server does not answer, for use in brackets. Never raises."""
        try:
            return await self._exit_reason()
        except RuntimeUnavailableError:
            return "the container engine does not answer: start Docker again"

    async def _exit_reason(self) -> str:
        found = await self.inspect()
        for before, change in ((("running",), "not-running"), (("exited", "removing", "dead"), "removed")):
            if found is not None and found["State"]["Status"] in before:
                found = await self._inspect_after(change)
        if found is None:
            return "its container was removed from outside"
        state = found["State"]
        match state["Status"]:
            case "paused":
                return PAUSED
            case "running":
                return "its server does not answer"
            case _ if state.get("OOMKilled"):
                return "its container ran out of memory: raise sandbox.max_memory_mb"
            case _ if state.get("ExitCode") in KILL_STATUSES:
                return "its container was stopped from outside"
            case _:
                output = (await self._last_log_line()) or "it printed nothing"
                return f"its server ended with status {state.get('ExitCode')}: {output}"

    async def _inspect_after(self, change: str) -> dict[str, Any] | None:
        """Give the engine a moment to notice this change, then inspect. Raises RuntimeUnavailableError."""
        with suppress(RuntimeUnavailableError, errors.NotFound):
            await call_engine(self._client.api.wait, self.id, timeout=SETTLE_S, condition=change)
        return await self.inspect()

    async def _last_log_line(self) -> str:
        with suppress(Exception):  # boundary to an engine that may be failing; the log is only an addition
            log: bytes = await asyncio.to_thread(self._client.api.logs, self.id, tail=LOG_LINES)
            return log.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return ""
