"""The user takes over the agent's terminal, and gives it back.

Invariants: meanwhile nobody waits for a command and none starts (BashSession holds its lock); a running program keeps
running at both ends; keys are sent unchanged and stored nowhere except in what the terminal shows, which is nothing if
a program has turned its echo off. In an idle shell the user edits lines with history, read by the agent's own shell, so
folder, variables and jobs are the agent's.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import time
from contextlib import suppress

from core.events import CmdOutputMetadata, CmdOutputObservation, Status
from core.terminal import COLUMNS, ROWS
from runtime.cancellation import run_to_completion
from runtime.server import prompt
from runtime.server.action_executor import Emit
from runtime.server.shell import Shell

LEAVE_S = 0.5
"""Time for the shell to leave its line after the user has finished."""
MAX_TYPED_BYTES = 16 * 1024
"""Of the newest lines that the user typed, which the agent reads."""
TAKEN = "STATUS$TERMINAL_TAKEN"
"""ID of the status sent when keys are accepted."""
ENDS_S = 0.25
"""Time for a program that is just ending; one that takes longer keeps running."""
BETWEEN_S = 0.05
"""Time for a shell between two lines that does not read the next one any more."""
ENDING_KEYS = frozenset(b"\x03\x1a\x1c")
"""After one of these the shell may restart reading lines; keys typed at that moment would be lost or misread."""
GRACE_S = 0.1
"""How long keys after one of those wait if the shell does not restart."""

_LINES = r"""
__handloom_status=0
while [[ -e @HELD@ ]]; do
  __handloom_shown='\w \$ '
  IFS= builtin read -e -r -p "${__handloom_shown@P}" __handloom_line || break
  while ! __handloom_error=$(LC_ALL=C bash -n -c "$__handloom_line" 2>&1) &&
      [[ $__handloom_error == *"unexpected end of file"* || $__handloom_error == *"unexpected EOF"* ]]; do
    IFS= builtin read -e -r -p '> ' __handloom_more || break
    __handloom_line+=$'\n'$__handloom_more
  done
  [[ $__handloom_line == *[![:space:]]* ]] || continue
  builtin history -s -- "$__handloom_line"
  builtin printf '> %s\n' "${__handloom_line//$'\n'/; }" >>@TYPED@
  (builtin exit $__handloom_status)
  builtin eval "$__handloom_line"
  __handloom_status=$?
  builtin printf '< %s\n' $__handloom_status >>@TYPED@
done
"""
"""Reads lines for the user as long as the file @HELD@ exists. An interrupt ends all of it, and it is started again."""


class UserTerminal:
    """The user's turn at the terminal of one shell. Belongs to one event loop."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._log = shell.log
        self._reads_lines = False
        self._pending_keys = b""
        self._prompts = 0
        self._paused_until = 0.0
        self.is_on = False

    def begin(self) -> None:
        """Start the turn, and wake up whoever waits for the running command."""
        self.is_on = True
        self._shell.wake()

    def end(self) -> None:
        """End the turn. `run` returns soon; running programs continue."""
        self.is_on = False
        self._shell.wake()

    @property
    def waiting_bytes(self) -> int:
        """The size of the keys that wait for a program."""
        return len(self._pending_keys)

    def type(self, keys: bytes) -> None:
        """Send keys unchanged. Between two programs they wait for the next one, because that prompt is not the
        user's.
        """
        self._pending_keys += keys
        self._send_pending()

    def _send_pending(self) -> None:
        shell = self._shell
        while self._pending_keys and shell.terminal is not None:
            is_between = shell.is_over or self._log.action_id is None
            if is_between or (self._reads_lines and not shell.has_begun) or time.monotonic() < self._paused_until:
                return
            end = next(
                (at + 1 for at, key in enumerate(self._pending_keys) if key in ENDING_KEYS), len(self._pending_keys)
            )
            keys, self._pending_keys = self._pending_keys[:end], self._pending_keys[end:]
            shell.terminal.send(keys)
            if self._reads_lines and keys[-1] in ENDING_KEYS:
                self._paused_until = time.monotonic() + GRACE_S
                asyncio.get_running_loop().call_later(GRACE_S, shell.wake)

    async def run(self, command: str, action_id: int, emit: Emit) -> CmdOutputObservation:
        """Let the user work until `end`; return what was printed, preceded by what the user typed."""
        shell, notes, is_done = self._shell, "", False
        held, typed = shell.write_file("held", ""), shell.write_file("typed", "")
        try:
            if self._log.action_id is not None:
                self._log.action_id = action_id
            await emit(Status("info", TAKEN, ""))
            while self.is_on:
                if shell.is_over or self._log.action_id is None or self._lost_its_line:
                    notes += await self._begin_lines(action_id, emit, held, typed)
                await shell.flush(emit)
                self._send_pending()
                if self.is_on and not shell.is_over:
                    await shell.change()
            is_done = True
        finally:
            self.is_on = False
            with suppress(OSError):
                os.unlink(held)
            await run_to_completion(self._leave_lines())
            shell.resize(ROWS, COLUMNS)
            if not is_done:
                self._log.drop_unread()
        await shell.flush(emit)
        return self._observation(command, notes + _typed_lines(typed))

    async def _begin_lines(self, action_id: int, emit: Emit, held: str, typed: str) -> str:
        """Have the idle shell read lines; return a note about a command or shell that ended before."""
        shell, notes = self._shell, ""
        if shell.is_over and self._log.action_id is not None:
            read_lines, self._reads_lines = self._reads_lines, False
            result, shell_ended = shell.take_result()
            if not read_lines and not shell_ended:
                notes = f"[The command that ran before ended with exit code {result.exit_code}.]\n"
        if shell.has_ended:
            note = f"[The shell ended. {await shell.restart()}]"
            notes += f"{note}\n"
            held = shell.write_file("held", "")
            shell.log.feed(f"{note}\r\n".encode())
        script = _LINES.replace("@HELD@", shlex.quote(held)).replace("@TYPED@", shlex.quote(typed))
        await shell.begin(script, action_id)
        self._reads_lines = True
        self._prompts, self._paused_until = shell.other_prompts, 0.0
        return notes

    @property
    def _lost_its_line(self) -> bool:
        """Whether a key discarded the line that makes the shell read lines: it shows its own prompt again."""
        return self._reads_lines and self._shell.other_prompts != self._prompts and not self._shell.has_begun

    async def _leave_lines(self) -> None:
        """Return the shell to its prompt if it reads a line; a program of the user keeps running."""
        shell = self._shell
        if not self._reads_lines or shell.is_over or shell.terminal is None:
            return
        if await shell.ends_within(ENDS_S if shell.terminal.foreground_group != shell.pid else BETWEEN_S):
            return  # it was just ending
        if shell.is_over or shell.terminal.foreground_group != shell.pid:
            return  # reading lines ends after it, because the file is gone
        shell.terminal.discard_input()
        with suppress(ProcessLookupError):
            os.kill(shell.pid, signal.SIGINT)  # harmless if it already shows its prompt, unlike end of file
        if not await shell.ends_within(LEAVE_S) and not shell.has_begun:
            shell.mark_discarded()

    def _observation(self, command: str, prefix: str) -> CmdOutputObservation:
        shell, log = self._shell, self._log
        result = CmdOutputMetadata(working_dir=shell.cwd)
        suffix = prompt.GIVEN_BACK
        if shell.is_over:
            read_lines, self._reads_lines = self._reads_lines, False
            result, shell_ended = shell.take_result()
            if shell_ended:
                suffix += "\n[The shell ended; the next command starts a fresh one.]"
            elif not read_lines:
                suffix += f"\n[The command that ran before ended with exit code {result.exit_code}.]"
        elif log.action_id is not None:
            suffix += prompt.LEFT_RUNNING
        update = {"exit_code": 0 if log.action_id is None else -1, "prefix": prefix, "suffix": suffix}
        metadata = result.model_copy(update=update)
        return CmdOutputObservation(command=command, content=log.unread.take(), metadata=metadata)


def _typed_lines(path: str) -> str:
    """Return the lines that the user typed with their exit codes, or an empty string. Blocks briefly."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - MAX_TYPED_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    shown: list[str] = []
    for line in lines:
        if line.startswith("> "):
            shown.append("$ " + line[2:])
        elif line.startswith("< ") and shown and line[2:].isdigit():
            shown[-1] += f"  [exit code {line[2:]}]"
    return "[The user ran:]\n" + "\n".join(shown) + "\n[The terminal showed:]\n" if shown else ""
