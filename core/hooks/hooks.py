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
from core.memory.memory import Memory
from core.protocols import Runtime
from core.sandbox.environment_shell import TIMED_OUT_EXIT, EnvironmentShell, separate_shell_command
from core.settings.config import SandboxSettings
from core.stream import EventStream, Frames
from core.trust.hook_file import DENIES, Hook, Moment

log = logging.getLogger(__name__)

HOOK_FAILED = "STATUS$HOOK_FAILED"
HOOKS_NOT_RUN = "STATUS$HOOKS_NOT_RUN"
MAX_STDERR_BYTES = 8 * 1024
HOST_HOOK_EXIT_S = 1.0
"""How long a hook that was killed may take to exit."""
MAX_TEXT_CHARS = 4_000
"""Of each text in the JSON object; a longer one is cut, and `cut` says so."""
MAX_INPUT_CHARS = 64 * 1024
"""Of the whole JSON object: a shell command may be twice as long."""
REASON_CHARS = 2_000
END_S = 10.0
"""For all hooks at the end, because the user waits for them."""
NO_REASON = "A hook denied this action, and did not say why."


@dataclass(frozen=True, slots=True)
class HookResult:
    """How a hook ended."""

    exit_status: int | None
    """None if it could not be run, or not to its end."""
    stderr: str = ""
    """Foreign text."""
    timed_out: bool = False


async def run_on_host(hook: Hook, line: bytes, folder: Path) -> HookResult:
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
        return HookResult(None, error.strerror or str(error))
    try:
        async with asyncio.timeout(hook.timeout_s):
            stderr = await _communicate(process, line)
            return HookResult(await process.wait(), stderr)
    except TimeoutError:
        return HookResult(None, timed_out=True)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(HOST_HOOK_EXIT_S):
                await process.wait()
        # A process that left the group may keep the pipe open forever, and Process has no method to close it.
        process._transport.close()  # type: ignore[attr-defined]


async def _communicate(process: asyncio.subprocess.Process, line: bytes) -> str:
    """Write the line, and return standard error."""
    assert process.stdin is not None
    assert process.stderr is not None
    with suppress(ConnectionError):  # a hook does not have to read
        process.stdin.write(line)
        await process.stdin.drain()
        process.stdin.close()
    stderr = b""
    while chunk := await process.stderr.read(4096):
        stderr = (stderr + chunk)[:MAX_STDERR_BYTES]
    return stderr.decode("utf-8", "replace")


class Hooks:
    """The hooks of one conversation."""

    def __init__(
        self,
        *,
        memory: Memory,
        settings: SandboxSettings,
        runtime: Runtime,
        stream: EventStream,
        frames: Frames,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._memory = memory
        self._settings = settings
        self._runtime = runtime
        self._stream = stream
        self._frames = frames
        self._ready = ready
        """Returns when the sandbox runs. Raises RuntimeUnavailableError."""
        self._shell = EnvironmentShell(runtime, stream, frames)
        self._notices: set[str] = set()
        self._has_sandbox = False
        """Whether an action was about to be carried out, so that the sandbox runs."""
        self._has_begun = False
        self._is_started = asyncio.Event()
        """Set when the user's hooks for the start have ended."""

    async def begin(self) -> None:
        """Run the user's hooks for the start. Does not raise."""
        try:
            if self._memory.exists:
                await self._memory.look(reports=False)
                self._has_begun = True
                for hook in self._user_hooks(Moment.CONVERSATION_START):
                    await self._on_host(hook, {"event": hook.moment})
        except HandloomError as error:  # of the store
            log.warning("conversation %s has no hooks: %s", self._stream.conversation_id, error)
        finally:
            self._is_started.set()

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
        data: dict[str, Any] = {"event": moment}
        if action is not None:
            data["action"] = event_to_dict(action)
        if observation is not None:
            data["observation"] = event_to_dict(observation)
        for hook in self._user_hooks(moment):
            if hook.wants(kind) and (reason := await self._on_host(hook, data)):
                return reason
        for hook in self._project_hooks(moment):
            if hook.wants(kind) and (reason := await self._in_sandbox(hook, data)):
                return reason
        return ""

    async def before(self, action: Action) -> str:
        """Run the hooks before an action, and return why it is denied; empty if it is not."""
        await self._is_started.wait()
        if not self._has_sandbox:
            self._has_sandbox = True
            for hook in self._project_hooks(Moment.CONVERSATION_START):
                await self._in_sandbox(hook, {"event": hook.moment})
        return await self.run(Moment.BEFORE_ACTION, action)

    def _user_hooks(self, moment: Moment) -> list[Hook]:
        gathered = self._memory.gathered
        return [hook for hook in gathered.own_hooks if hook.moment is moment] if gathered is not None else []

    def _project_hooks(self, moment: Moment) -> list[Hook]:
        gathered = self._memory.gathered
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
            self._notify(HOOKS_NOT_RUN, text)
        return []

    async def _on_host(self, hook: Hook, data: dict[str, Any]) -> str:
        home, line = self._memory.home, await asyncio.to_thread(self._input, data)
        return self._denial(hook, await run_on_host(hook, line, home))

    async def _in_sandbox(self, hook: Hook, data: dict[str, Any]) -> str:
        line = base64.b64encode(await asyncio.to_thread(self._input, data)).decode("ascii")
        command = f"printf %s {line} | base64 -d | {{ sh -c {quote(hook.command)}; }} 2>&1 >/dev/null"
        action: CmdRunAction = separate_shell_command(command, self._memory.sandbox_folder)
        try:
            await self._ready()
            done = await self._shell.run(action, hook.timeout_s)
        except HandloomError as error:
            return self._denial(hook, HookResult(None, str(error)))
        if not isinstance(done, CmdOutputObservation):
            return self._denial(hook, HookResult(None, done.content))
        timed_out = done.exit_code == TIMED_OUT_EXIT and "timed out" in done.metadata.suffix
        exit_status = None if timed_out else done.exit_code
        return self._denial(hook, HookResult(exit_status, done.content, timed_out=timed_out))

    def _denial(self, hook: Hook, result: HookResult) -> str:
        """Why a hook denies the action; empty if it does not. Shows a notice if it failed."""
        if hook.moment is Moment.BEFORE_ACTION and result.exit_status == DENIES:
            return result.stderr.strip()[:REASON_CHARS] or NO_REASON
        if result.exit_status != 0:
            could_run = result.exit_status is not None
            how = "took too long" if result.timed_out else "failed" if could_run else "could not be run"
            stderr = result.stderr.strip()[-200:]
            self._notify(HOOK_FAILED, f"The hook `{hook.command[:80]}` {how}; the work goes on. {stderr}".strip())
        return ""

    def _input(self, data: dict[str, Any]) -> bytes:
        """The JSON object for a hook, redacted as events are, and a newline."""
        common = {
            "conversation": self._stream.conversation_id,
            "workspace": self._memory.folder,
            "sandbox_workspace": self._memory.sandbox_folder,
        }
        cuts: list[bool] = []
        whole = {**common, **_bounded(self._stream.redact(data), cuts)}
        if cuts:
            whole["cut"] = True
        line = to_json(whole)
        if len(line) > MAX_INPUT_CHARS:
            kinds = {name: {key: data[name].get(key) for key in ("action", "observation")} for name in data
                     if isinstance(data[name], dict)}  # fmt: skip
            line = to_json({**common, "event": data["event"], **kinds, "cut": True})
        return line.encode() + b"\n"

    def _notify(self, status: str, text: str) -> None:
        """Show a notice, once in this conversation. Redacted: a command or its output may contain a secret."""
        text = self._stream.redact(text)
        if text not in self._notices:
            self._notices.add(text)
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
