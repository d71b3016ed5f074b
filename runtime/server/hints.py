"""What the model is told about its commands: V0's hints, word for word, since models are tuned to them. Pure.

Source: `openhands/runtime/utils/bash.py`. Our additions, on input, cut output and a shell that ended, are separate
lines behind them.
"""

from __future__ import annotations

import shlex

from runtime.server.terminal import control_key

HELP = (
    "You may wait longer to see additional output by sending empty command '', "
    "send other commands to interact with the current process, "
    'send keys ("C-c", "C-z", "C-d") to interrupt/kill the previous command before sending your new command, '
    "or use the timeout parameter in execute_bash for future commands."
)
CONTINUED = "[Below is the output of the previous command.]\n"
NOTHING_TO_RETRIEVE = "ERROR: No previous running command to retrieve logs from."
NOTHING_TO_INTERACT = "ERROR: No previous running command to interact with."
WAITS = "\n[The command waits for input: send it with `is_input` set to `true`.]"

TAKEN_OVER = "\n[The user has taken over the terminal while this ran. The result follows when the user gives it back.]"
GIVEN_BACK = "\n[The user has given the terminal back.]"
LEFT_RUNNING = f"\n[A program still runs in it. {HELP}]"


def completed(exit_code: int, command: str) -> str:
    """Return the suffix of a command that ended; `command` may be a special key."""
    sent = f" CTRL+{command.strip()[-1].upper()} was sent." if control_key(command) is not None else ""
    return f"\n[The command completed with exit code {exit_code}.{sent}]"


def no_new_output(seconds: float) -> str:
    """Return the suffix of a silent command."""
    return f"\n[The command has no new output after {seconds:g} seconds. {HELP}]"


def timed_out(seconds: float) -> str:
    """Return the suffix of a command that reached its time limit."""
    return f"\n[The command timed out after {seconds:g} seconds. {HELP}]"


def not_executed(command: str) -> str:
    """Return the suffix for a command that arrived while another one ran."""
    return (
        f'\n[Your command "{command.strip()}" is NOT executed. '
        "The previous command is still running - You CANNOT send new commands until the previous command is "
        "completed. By setting `is_input` to `true`, you can interact with the current process: "
        f"{HELP}]"
    )


def kept_output(number: int, path: str, lines: int, size_bytes: int, loss: str) -> str:
    """Return the note after an output that was cut; `loss` says why the stored output is incomplete.

    `path` is empty if the output could not be stored.
    """
    if not path:
        return f"\n[What is not shown of the output is lost: {loss}.]"
    kept = "All that was kept of the output" if loss else "The whole output"
    why = f"; {loss}" if loss else ""
    return (
        f"\n[{kept} is output:{number} ({lines} lines, {size_bytes} bytes{why}). "
        f"Read it a part at a time, such as with: sed -n '1,200p' {shlex.quote(path)}]"
    )


def fresh_shell(folder: str) -> str:
    """Return the note about a shell that was replaced."""
    return f"A fresh shell was started in {folder}; the old one's variables, functions and aliases are gone."
