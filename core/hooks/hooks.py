"""Hooks: commands of the user and of a trusted project that run around the actions of an agent.

The user's hooks run on this machine, as the user, in Handloom's home. A project's hooks run in its sandbox, in the
folder of the project, and only if the sandbox is isolated or the setting sandbox.run_repository_scripts allows scripts
without isolation. Each gets one JSON object on standard input; its time and its output are limited. A hook before an
action may deny it: the agent reads the reason, as for a rejection. A hook that fails is reported once, and stops
nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from core.errors import HandloomError
from core.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    Observation,
    Status,
    event_to_dict,
    to_json,
)
from core.memory.recall import Recollection
from core.protocols import Runtime
from core.pub_sub import Frames
from core.sandbox.environment_shell import TIMED_OUT_EXIT, EnvironmentShell, apart
from core.settings.config import SandboxSettings
from core.stream import EventStream
from core.trust.hook_file import DENIES, Hook, Moment

MAX_SAID_BYTES = 8 * 1024
"""Of standard error; the rest is dropped."""
HOST_HOOKS_END_S = 1.0
"""How long a hook that was ended may take to exit."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a hook ended."""

    status: int | None
    """None if it could not be run, or not to its end."""
    said: str = ""
    """Standard error. Foreign text."""
    is_late: bool = False


async def run_on_host(hook: Hook, line: bytes, folder: Path) -> Ended:
    """Run a hook in a folder, with a line on its standard input. Cancelling ends it and everything it started."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            hook.command,
            cwd=folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Ended(None, error.strerror or str(error))
    try:
        async with asyncio.timeout(hook.timeout_s):
            said = await _through(process, line)
            return Ended(await process.wait(), said)
    except TimeoutError:
        return Ended(None, is_late=True)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(HOST_HOOKS_END_S):
                await process.wait()
        # A process that left the group may keep the pipe open for ever, and Process has no method to close it.
        process._transport.close()  # type: ignore[attr-defined]


async def _through(process: asyncio.subprocess.Process, line: bytes) -> str:
    """Write the line, and return standard error."""
    assert process.stdin is not None
    assert process.stderr is not None
    with suppress(ConnectionError):  # a hook does not have to read
        process.stdin.write(line)
        await process.stdin.drain()
        process.stdin.close()
    kept = b""
    while chunk := await process.stderr.read(4096):
        kept = (kept + chunk)[:MAX_SAID_BYTES]
    return kept.decode("utf-8", "replace")


log = logging.getLogger(__name__)

HOOK_FAILED = "STATUS$HOOK_FAILED"
HOOKS_NOT_RUN = "STATUS$HOOKS_NOT_RUN"
MAX_TEXT_CHARS = 4_000
"""Of each text in the JSON object; a longer one is cut, and `cut` says so."""
MAX_TOLD_CHARS = 64 * 1024
"""Of the whole JSON object: a shell command may be twice as long."""
REASON_CHARS = 2_000
END_S = 10.0
"""For all hooks at the end, because the user waits for them."""
NO_REASON = "A hook denied this action, and did not say why."


class Hooks:
    """The hooks of one conversation."""

    def __init__(
        self,
        *,
        recollection: Recollection,
        settings: SandboxSettings,
        runtime: Runtime,
        stream: EventStream,
        frames: Frames,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._recollection = recollection
        self._settings = settings
        self._runtime = runtime
        self._stream = stream
        self._frames = frames
        self._ready = ready
        """Returns when the sandbox runs. Raises RuntimeUnavailableError."""
        self._shell = EnvironmentShell(runtime, stream, frames)
        self._told: set[str] = set()
        self._has_sandbox = False
        """Whether an action was about to be carried out, so that the sandbox runs."""
        self._has_begun = False
        self._is_through = asyncio.Event()
        """Set when the hooks for the start have ended."""

    async def begin(self) -> None:
        """Run the user's hooks for the start. Does not raise."""
        try:
            if self._recollection.exists:
                await self._recollection.look(tells=False)
                self._has_begun = True
                for hook in self._own(Moment.CONVERSATION_START):
                    await self._on_host(hook, {"event": hook.moment})
        except HandloomError as error:  # of the store
            log.warning("conversation %s has no hooks: %s", self._stream.conversation_id, error)
        finally:
            self._is_through.set()

    async def end(self) -> None:
        """Run the hooks for the end, if those for the start were run. Does not raise."""
        if self._has_begun:
            self._has_begun = False
            try:
                async with asyncio.timeout(END_S):
                    await self.run(Moment.CONVERSATION_END)
            except TimeoutError:
                log.warning("conversation %s was closed before its hooks had ended", self._stream.conversation_id)

    async def run(self, moment: Moment, action: Action | None = None, observation: Observation | None = None) -> str:
        """Run the hooks for a moment, in order, and return why the action is denied; empty if it is not."""
        kind = action.kind if action is not None else ""
        told: dict[str, Any] = {"event": moment}
        if action is not None:
            told["action"] = event_to_dict(action)
        if observation is not None:
            told["observation"] = event_to_dict(observation)
        for hook in self._own(moment):
            if hook.wants(kind) and (reason := await self._on_host(hook, told)):
                return reason
        for hook in self._of_project(moment):
            if hook.wants(kind) and (reason := await self._in_sandbox(hook, told)):
                return reason
        return ""

    async def before(self, action: Action) -> str:
        """Run the hooks before an action, and return why it is denied; empty if it is not."""
        await self._is_through.wait()
        if not self._has_sandbox:
            self._has_sandbox = True
            for hook in self._of_project(Moment.CONVERSATION_START):
                await self._in_sandbox(hook, {"event": hook.moment})
        return await self.run(Moment.BEFORE_ACTION, action)

    # -- which ---------------------------------------------------------------------------------------------------------

    def _own(self, moment: Moment) -> list[Hook]:
        gathered = self._recollection.gathered
        return [hook for hook in gathered.own_hooks if hook.moment is moment] if gathered is not None else []

    def _of_project(self, moment: Moment) -> list[Hook]:
        gathered = self._recollection.gathered
        hooks = [hook for hook in gathered.project_hooks if hook.moment is moment] if gathered is not None else []
        if not hooks or (moment is Moment.CONVERSATION_END and not self._has_sandbox):
            return []
        allowed = self._settings.run_repository_scripts
        if allowed == "always" or (allowed == "isolated" and self._runtime.isolation != "none"):
            return hooks
        if allowed == "isolated":
            text = (
                "The project's hooks are not run: nothing separates them from this machine. To allow it, set "
                'run_repository_scripts under [sandbox] in config.toml to "always".'
            )
            self._tell(HOOKS_NOT_RUN, text)
        return []

    # -- how -----------------------------------------------------------------------------------------------------------

    async def _on_host(self, hook: Hook, told: dict[str, Any]) -> str:
        home, line = self._recollection.home, await asyncio.to_thread(self._line, told)
        return self._taken(hook, await run_on_host(hook, line, home))

    async def _in_sandbox(self, hook: Hook, told: dict[str, Any]) -> str:
        line = base64.b64encode(await asyncio.to_thread(self._line, told)).decode("ascii")
        command = f"printf %s {line} | base64 -d | {{ sh -c {quote(hook.command)}; }} 2>&1 >/dev/null"
        action: CmdRunAction = apart(command, self._recollection.sandbox_folder)
        try:
            await self._ready()
            done = await self._shell.run(action, hook.timeout_s)
        except HandloomError as error:
            return self._taken(hook, Ended(None, str(error)))
        if not isinstance(done, CmdOutputObservation):
            return self._taken(hook, Ended(None, done.content))
        is_late = done.exit_code == TIMED_OUT_EXIT and "timed out" in done.metadata.suffix
        return self._taken(hook, Ended(None if is_late else done.exit_code, done.content, is_late=is_late))

    def _taken(self, hook: Hook, ended: Ended) -> str:
        """Why a hook that has ended denies the action; empty if it does not."""
        if hook.moment is Moment.BEFORE_ACTION and ended.status == DENIES:
            return ended.said.strip()[:REASON_CHARS] or NO_REASON
        if ended.status != 0:
            how = "took too long" if ended.is_late else "could not be run" if ended.status is None else "failed"
            said = ended.said.strip()[-200:]
            self._tell(HOOK_FAILED, f"The hook `{hook.command[:80]}` {how}; the work goes on. {said}".strip())
        return ""

    def _line(self, told: dict[str, Any]) -> bytes:
        """The JSON object for a hook, redacted as events are, and a newline."""
        common = {
            "conversation": self._stream.conversation_id,
            "workspace": self._recollection.folder,
            "sandbox_workspace": self._recollection.sandbox_folder,
        }
        cuts: list[bool] = []
        whole = {**common, **_bounded(self._stream.masked(told), cuts)}
        if cuts:
            whole["cut"] = True
        line = to_json(whole)
        if len(line) > MAX_TOLD_CHARS:
            kinds = {name: {key: told[name].get(key) for key in ("action", "observation")} for name in told
                     if isinstance(told[name], dict)}  # fmt: skip
            line = to_json({**common, "event": told["event"], **kinds, "cut": True})
        return line.encode() + b"\n"

    def _tell(self, status: str, text: str) -> None:
        """Show a notice, once in this conversation. Redacted: a command or its output may contain a secret."""
        text = self._stream.masked(text)
        if text not in self._told:
            self._told.add(text)
            log.warning("conversation %s: %s", self._stream.conversation_id, text)
            self._frames.publish(Status("error", status, text))


def _bounded(value: Any, cuts: list[bool]) -> Any:
    """The value with long texts cut; `cuts` gets an entry for each."""
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
        cuts.append(True)
        return value[:MAX_TEXT_CHARS]
    if isinstance(value, dict):
        return {key: _bounded(one, cuts) for key, one in value.items()}
    if isinstance(value, list):
        return [_bounded(one, cuts) for one in value]
    return value
