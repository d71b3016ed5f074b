"""What the model is told about its commands: V0's hints, word for word, since models are tuned to them. Pure.

Source: `openhands/runtime/utils/bash.py`. What is added to them, on input that is waited for, on output that
was cut and on a shell that ended, stands behind them in a line of its own.
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

TAKEN_OVER = "\n[The user has taken over the terminal while this ran. What came of it is told when they give it back.]"
GIVEN_BACK = "\n[The user has given the terminal back.]"
LEFT_RUNNING = f"\n[A program still runs in it. {HELP}]"


def completed(exit_code: int, command: str) -> str:
    """The suffix of a command that ended; `command` may be a special key."""
    sent = f" CTRL+{command.strip()[-1].upper()} was sent." if control_key(command) is not None else ""
    return f"\n[The command completed with exit code {exit_code}.{sent}]"


def no_new_output(seconds: float) -> str:
    """The suffix of a command that is silent."""
    return f"\n[The command has no new output after {seconds:g} seconds. {HELP}]"


def timed_out(seconds: float) -> str:
    """The suffix of a command that has had its time."""
    return f"\n[The command timed out after {seconds:g} seconds. {HELP}]"


def not_executed(command: str) -> str:
    """The suffix for a command that came while another one ran."""
    return (
        f'\n[Your command "{command.strip()}" is NOT executed. '
        "The previous command is still running - You CANNOT send new commands until the previous command is "
        "completed. By setting `is_input` to `true`, you can interact with the current process: "
        f"{HELP}]"
    )


def kept_output(number: int, path: str, lines: int, size_bytes: int, loss: str) -> str:
    """What follows on an output of which the model sees a part; `loss` says why what is kept is not all.

    An empty path is that of an output that could not be written.
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
    """What happened to a shell that ended."""
    return f"A fresh shell was started in {folder}; the old one's variables, functions and aliases are gone."
