"""Makes the sandbox ready for the first action, once per session.

The sandbox is started, the chosen repository is cloned (or a new one made), its `.openhands/setup.sh` is run and its
pre-commit hook installed. Every command goes through the runtime and is in the log: an action of the environment and
its one observation. Invariants: all callers of `ready` wait for the same attempt; an attempt goes on where the last one
failed; code from a repository runs without isolation only if the user allowed it. Follows `_create_runtime` of
OpenHands V0 (`openhands/server/session/agent_session.py`), but a failure is an observation of the first action, and not
a conversation without a runtime.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from core.errors import HandloomError, RuntimeUnavailableError
from core.events import CmdOutputObservation, ErrorObservation, EventSource, Status
from core.protocols import Runtime, Spawn
from core.repository import (
    INIT_COMMAND,
    INSTALL_HOOK_COMMAND,
    NOT_INSTALLED_EXIT,
    PRE_COMMIT_SCRIPT,
    SETUP_SCRIPT,
    Repository,
    clone_command,
    folder_of,
    look_command,
    setup_command,
)
from core.sandbox.environment_shell import (
    TRY_AGAIN,
    EnvironmentShell,
    agent_shell_command,
    check,
    separate_shell_command,
)
from core.secrets.git_tokens import names_of, remedy
from core.settings.config import SandboxSettings
from core.store.conversations import FORK, ConversationInfo
from core.store.reader import EventFilter
from core.stream import EventStream, Frames

log = logging.getLogger(__name__)

STARTING_RUNTIME = "STATUS$STARTING_RUNTIME"
RUNTIME_STARTED = "STATUS$RUNTIME_STARTED"
SETTING_UP_WORKSPACE = "STATUS$SETTING_UP_WORKSPACE"
SETTING_UP_GIT_HOOKS = "STATUS$SETTING_UP_GIT_HOOKS"
READY = "STATUS$READY"
NO_ISOLATION = "STATUS$NO_ISOLATION"
SCRIPTS_NOT_RUN = "STATUS$REPOSITORY_SCRIPTS_NOT_RUN"
"""Error id of the event that says which scripts of the repository were not run."""

SETUP_TIMEOUT_S = 600.0
"""V0's hard time limit of the setup script."""
CLONE_TIMEOUT_S = 1800.0
"""A large repository over a slow connection."""
COMMAND_TIMEOUT_S = 60.0
"""Everything else takes milliseconds; a network folder may take seconds."""
CLOSE_S = 5.0
"""How long the running command may take to end and its observation to be stored."""


class _Attempt:
    """One run through the steps that are still to be done."""

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.failure: RuntimeUnavailableError | None = None
        """The error, if it failed."""
        self.is_reported = False
        """Whether an action got the error as its observation."""
        self.failed_step: Callable[[], Awaitable[None]] | None = None
        """The step that failed; None if it was the start of the sandbox."""

    @property
    def is_ending(self) -> bool:
        """Whether it was interrupted and its command still runs."""
        return self.task.cancelling() > 0 and not self.task.done()


class Setup:
    """The start sequence of one session. `spawn` starts a task in the session's task group."""

    def __init__(
        self,
        *,
        info: ConversationInfo,
        settings: SandboxSettings,
        runtime: Runtime,
        stream: EventStream,
        frames: Frames,
        spawn: Spawn,
    ) -> None:
        self._info = info
        self._settings = settings
        self._runtime = runtime
        self._shell = EnvironmentShell(runtime, stream, frames)
        self._stream = stream
        self._frames = frames
        self._spawn = spawn
        self._steps: list[Callable[[], Awaitable[None]]] = [
            self._clone_or_init,
            self._find_scripts,
            self._run_setup_script,
            self._install_hook,
        ]
        """The steps that are still to be done once the runtime runs, in order."""
        self._scripts: frozenset[str] = frozenset()
        self._seconds: dict[str, float] = {}
        self._attempt: _Attempt | None = None
        self._warming: asyncio.Task[None] | None = None
        self._is_prepared = False
        self._is_closed = False
        self.releases = 0
        """How often the sandbox was ended, with its shell."""

    def warm_up(self) -> None:
        """Start in the background, before an action needs the sandbox."""
        if not self.is_warming_up:
            self._warming = self._spawn(self.begin())

    @property
    def is_warming_up(self) -> bool:
        """Whether the background start is still running."""
        return self._warming is not None and not self._warming.done()

    async def warmed_up(self) -> None:
        """Return when the background start has ended, also if it failed."""
        if self._warming is not None:
            await asyncio.wait([self._warming])

    async def begin(self) -> None:
        """Make the sandbox ready before it is used; an error is kept for the action that needs it."""
        with suppress(RuntimeUnavailableError):
            if self._is_prepared:
                await self._start_again()
            else:
                await self._finished_attempt()

    async def ready(self) -> None:
        """Return when the sandbox is ready for an action. Cheap if it is ready already.

        Raises RuntimeUnavailableError with what to do next; the next call tries again. Cancelling ends the waiting, not
        the setup: see `interrupt`.
        """
        if self._is_prepared:
            await self._start_again()
            return
        attempt = self._attempt
        if attempt is None or attempt.failure is None or attempt.is_reported:
            attempt = await self._finished_attempt()
        if attempt.failure is not None:
            attempt.is_reported = True
            raise attempt.failure

    async def _finished_attempt(self) -> _Attempt:
        """Return the running attempt, or a new one, at its end. Raises RuntimeUnavailableError if interrupted."""
        while (attempt := self._attempt) is not None and attempt.is_ending:
            await asyncio.wait([attempt.task])  # an interrupted attempt is not joined: a new one begins
        if self._is_closed:
            raise RuntimeUnavailableError("The conversation is closed. Open it again to continue.")
        if attempt is None or attempt.task.done():
            attempt = self._attempt = _Attempt()
            attempt.task = self._spawn(self._prepare(attempt))
        await asyncio.wait([attempt.task])
        if attempt.task.cancelled():
            raise RuntimeUnavailableError(f"Starting the sandbox was interrupted. {TRY_AGAIN}")
        return attempt

    def interrupt(self) -> None:
        """End the running attempt; its command is interrupted and gets its observation."""
        if self._attempt is not None:
            self._attempt.task.cancel()

    def skip(self) -> None:
        """Skip the step that failed. The start of the sandbox cannot be skipped: it is tried again."""
        if self._attempt is not None and self._attempt.failed_step in self._steps:
            self._steps.remove(self._attempt.failed_step)
            self._attempt = None

    async def restart(self) -> None:
        """End the sandbox. The next action starts a new one, in the folder of the work."""
        await self._release(self._runtime.aclose)

    async def rest(self) -> None:
        """Release the sandbox for now. The next action starts it again, in the folder of the work."""
        await self._release(self._runtime.rest)

    async def _release(self, release: Callable[[], Awaitable[None]]) -> None:
        self.interrupt()
        self.releases += 1
        await release()
        if self._is_prepared:
            self._steps = [self._find_scripts, self._run_setup_script]
        self._is_prepared, self._attempt = False, None

    async def aclose(self) -> None:
        """Interrupt, and return when the last event is stored. Nothing can be set up after that."""
        self._is_closed = True
        self.interrupt()
        if self._attempt is not None:
            await asyncio.wait([self._attempt.task], timeout=CLOSE_S)

    # -- the sequence ------------------------------------------------------------------------------------------------

    async def _prepare(self, attempt: _Attempt) -> None:
        """Make one attempt. Does not raise: the error is for those who wait."""
        try:
            async with self._step(STARTING_RUNTIME, "Starting the sandbox"):
                await self._start_runtime()
            self._show(RUNTIME_STARTED, "The sandbox is running.")
            while self._steps:
                attempt.failed_step = self._steps[0]
                await self._steps[0]()
                self._steps.pop(0)
        except HandloomError as error:  # of the store too: a command that cannot be recorded is not run
            attempt.failure = RuntimeUnavailableError(str(error))
            return
        self._is_prepared = True
        self._show(READY, f"The sandbox is ready; that took {sum(self._seconds.values()):.1f} s.")
        if self._runtime.why_open:
            self._show(NO_ISOLATION, f"No sandbox: commands run directly on this machine. {self._runtime.why_open}.")
        times = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in self._seconds.items())
        log.info("conversation %s is ready: %s", self._info.id, times)

    async def _start_again(self) -> None:
        """Start the sandbox again if it has died since."""
        try:
            await self._start_runtime()
        except RuntimeUnavailableError as error:
            self._frames.publish(Status("error", STARTING_RUNTIME, str(error)))
            raise

    async def _start_runtime(self) -> None:
        try:
            await self._runtime.start(partial(self._show, STARTING_RUNTIME))
        except HandloomError:
            raise
        except Exception as error:  # the boundary to the runtime: its bug must not end the session
            log.exception("the runtime could not be started")
            text = f"The sandbox cannot be started: {type(error).__name__}: {error}. {TRY_AGAIN}"
            raise RuntimeUnavailableError(text) from error

    async def _clone_or_init(self) -> None:
        """Clone the chosen repository; without one, make a new one if the settings want it."""
        if self._info.repository:
            repository = Repository.parse(self._info.repository)
            copied = self._info.origin == FORK
            command, limit_s = clone_command(repository, self._info.id, copied=copied), CLONE_TIMEOUT_S
            what = f"Cloning {repository}"
            advice = f"Check the address. {self._access_remedy(repository)}".strip()
        elif self._settings.init_git_in_empty_workspace:
            command, limit_s = INIT_COMMAND, COMMAND_TIMEOUT_S
            what, advice = "Making a git repository", "Do without: set init_git_in_empty_workspace to false."
        else:
            return
        async with self._step(SETTING_UP_WORKSPACE, what):
            check(
                await self._shell.run(separate_shell_command(command, self._runtime.working_dir), limit_s), what, advice
            )

    def _access_remedy(self, repository: Repository) -> str:
        if self._runtime.is_elsewhere:
            return "If it is private, the machine of the sandbox needs a login for it: yours is not passed on."
        return remedy(repository.place, names_of(self._settings.git_tokens))

    async def _find_scripts(self) -> None:
        """Change to the folder of the work, and find out which scripts it has."""
        if not self._info.repository and not await asyncio.to_thread(_has_scripts, self._info.workspace):
            return
        what = "Looking for the repository's scripts"
        async with self._step(SETTING_UP_WORKSPACE, what):
            observation = await self._shell.run(agent_shell_command(look_command(self._folder)), COMMAND_TIMEOUT_S)
            check(observation, what)
        found = [script for script in (SETUP_SCRIPT, PRE_COMMIT_SCRIPT) if script in observation.content.split("\n")]
        if self._may_run_scripts:
            self._scripts = frozenset(found)
        elif found and self._settings.run_repository_scripts == "isolated":
            await self._report_not_run(" and ".join(found))

    async def _run_setup_script(self) -> None:
        if SETUP_SCRIPT not in self._scripts:
            return
        what = f"Running {SETUP_SCRIPT}"
        remedy = 'Correct it, or set run_repository_scripts to "never" and open the conversation again.'
        async with self._step(SETTING_UP_WORKSPACE, what):
            action = agent_shell_command(setup_command(self._folder))
            check(await self._shell.run(action, SETUP_TIMEOUT_S), what, remedy)

    async def _install_hook(self) -> None:
        if PRE_COMMIT_SCRIPT not in self._scripts:
            return
        what = f"Installing {PRE_COMMIT_SCRIPT} as pre-commit hook"
        async with self._step(SETTING_UP_GIT_HOOKS, what):
            observation = await self._shell.run(
                separate_shell_command(INSTALL_HOOK_COMMAND, self._folder), COMMAND_TIMEOUT_S
            )
            refused = isinstance(observation, CmdOutputObservation) and observation.exit_code == NOT_INSTALLED_EXIT
            if not refused:
                check(observation, what)
        if refused:
            self._show(SETTING_UP_GIT_HOOKS, f"{PRE_COMMIT_SCRIPT} was not installed as hook: {observation.content}")

    @property
    def _folder(self) -> str:
        repository = Repository.parse(self._info.repository) if self._info.repository else None
        return folder_of(repository, self._runtime.working_dir)

    @property
    def _may_run_scripts(self) -> bool:
        match self._settings.run_repository_scripts:
            case "always":
                return True
            case "isolated":
                return self._runtime.isolation != "none"
            case "never":
                return False

    async def _report_not_run(self, scripts: str) -> None:
        """Show it on the screen, and store it once in the conversation."""
        text = (
            f"{scripts} of the repository: not run, because without isolation that would be as you, on this machine.\n"
            "Read first what would run. To allow it, set run_repository_scripts under [sandbox] in config.toml to "
            '"always", or HANDLOOM__SANDBOX__RUN_REPOSITORY_SCRIPTS=always, and open the conversation again; "never" '
            "ends this notice."
        )
        self._show(SCRIPTS_NOT_RUN, text)
        reported = EventFilter(kinds=frozenset({"observation:error"}), query=SCRIPTS_NOT_RUN)
        if not await self._stream.read(where=reported, limit=1):
            await self._stream.append(ErrorObservation(content=text, error_id=SCRIPTS_NOT_RUN), EventSource.ENVIRONMENT)

    # -- notices -----------------------------------------------------------------------------------------------------

    def _show(self, status: str, text: str) -> None:
        self._frames.publish(Status("info", status, text))

    @asynccontextmanager
    async def _step(self, status: str, what: str) -> AsyncIterator[None]:
        """Show that a step begins, and how and when it ended."""
        self._show(status, f"{what} …")
        begun = time.monotonic()
        try:
            yield
        except HandloomError as error:
            log.warning("conversation %s: %s failed: %s", self._info.id, what, error)
            self._frames.publish(Status("error", status, str(error)))
            raise
        except asyncio.CancelledError:
            self._show(status, "")
            raise
        self._seconds[what] = time.monotonic() - begun
        self._show(status, f"{what}: done in {self._seconds[what]:.1f} s.")


def _has_scripts(workspace: str) -> bool:
    return any((Path(workspace) / script).is_file() for script in (SETUP_SCRIPT, PRE_COMMIT_SCRIPT))
