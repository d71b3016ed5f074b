"""Where a command ends, and the hints that the model reads about it. No IO.

The shell's prompt is a block of JSON in its output.

As in OpenHands V0 (`openhands/events/observation/commands.py`), PS1 prints JSON between two markers, with exit code,
folder and interpreter. Ours adds a nonce, so that a program cannot fake its end by printing the markers, and starts
with a control character that programs hardly print, so that partial markers rarely hold back output.

Nothing in it forks: `$(pwd)` and `$(which python)` would double the time of `true`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from core.events import CmdOutputMetadata
from runtime.server.terminal import control_key

PS1_BEGIN = "###PS1JSON###"
PS1_END = "###PS1END###"
_LEAD = "\x1e"

MIN_BASH = (4, 4)
"""The first bash with `${NAME@P}`. macOS has 3.2."""
INIT_SCRIPT = r"""
if [[ ${BASH_VERSINFO[0]} -lt @MAJOR@ || ${BASH_VERSINFO[0]} -eq @MAJOR@ && ${BASH_VERSINFO[1]} -lt @MINOR@ ]]; then
    echo "bash @MAJOR@.@MINOR@ or newer is needed, and this is $BASH_VERSION. On macOS, brew install bash"
    exit 1
fi
unset HISTFILE MAILCHECK
set +o history +H
__handloom_nonce=@NONCE@
__handloom_number=0
__handloom_lent=
__handloom_pid=
__handloom_begin() {
    set -- $? "$@"
    __handloom_number=$2
    builtin echo "$2" >|"$3"
    __handloom_take_back
    if [[ -n $4 ]]; then . "$4" || :; fi
    if [[ $# -gt 5 ]]; then __handloom_lend "${@:5}" || :; fi
    [[ $- == *e* ]] || return $1
}
__handloom_lend() {
    local IFS __handloom_pipe __handloom_name __handloom_other
    IFS= __handloom_pipe=$1
    shift
    for __handloom_name; do
        if [[ -n ${!__handloom_name+x} ]]; then
            builtin read -r -d '' __handloom_other || break
        else
            __handloom_lent+=" $__handloom_name"
            builtin read -r -d '' "$__handloom_name" || break
            builtin export "$__handloom_name"
        fi
    done <"$__handloom_pipe"
}
__handloom_take_back() {
    local IFS __handloom_name
    IFS=' '
    for __handloom_name in $__handloom_lent; do
        [[ $__handloom_name != *[!A-Za-z0-9_]* ]] || continue
        builtin unset -v "$__handloom_name" || builtin export -n "$__handloom_name" || :
    done
    __handloom_lent=
}
__handloom_announce_job() {
    local __handloom_jobs
    __handloom_jobs=$'\n'$(builtin jobs -l)
    [[ $__handloom_jobs == *" $__handloom_pid "* ]] || return 0
    __handloom_jobs=${__handloom_jobs%%" $__handloom_pid "*}
    __handloom_jobs=${__handloom_jobs##*$'\n['}
    builtin echo "[${__handloom_jobs%%]*}] $__handloom_pid"
}
__handloom_prompt() {
    __handloom_status=$?
    __handloom_take_back
    set -- "$__handloom_pid"
    if [[ $- == *u* ]]; then set +u; __handloom_pid=$!; set -u; else __handloom_pid=$!; fi
    if [[ $__handloom_pid != "$1" && -t 1 ]]; then __handloom_announce_job || :; fi
    __handloom_dir=${PWD//\\/\\\\}
    __handloom_dir=${__handloom_dir//\"/\\\"}
    __handloom_dir=${__handloom_dir//$'\n'/\\n}
    hash python || :
    __handloom_python=${BASH_CMDS[python]-}
    PS2= PROMPT_COMMAND='{ __handloom_prompt; } 3>&2 2>/dev/null'
    PS1='@LEAD@@BEGIN@${__handloom_nonce}'
    PS1+='{"number": "${__handloom_number}", "pid": "${__handloom_pid}", "exit_code": "${__handloom_status}", '
    PS1+='"username": "\u", "hostname": "\h", "working_dir": "${__handloom_dir}", '
    PS1+='"py_interpreter_path": "${__handloom_python}"}@END@'
    [[ -t 3 ]] || printf %s "${PS1@P}" >/dev/tty
    [[ $- == *e* ]] || return $__handloom_status
}
PROMPT_COMMAND='{ __handloom_prompt; } 3>&2 2>/dev/null'
"""
"""What the shell runs before its first prompt.

`__handloom_prompt` sets PS1 and PROMPT_COMMAND each time, because commands such as `. ~/.bashrc` or a virtual
environment's `activate` change them. Its standard error is discarded, because `set -x` would trace it; where the
shell's is not a terminal (`exec 2>log`), bash would print the prompt there, so the function prints it to the terminal.
It is one line, because bash writes line by line and a background job's output would come between. Under `set -e` the
previous status would end the shell, so it is not passed on.

`__handloom_announce_job` prints the number and the process of a job that was started, as bash does after a typed `&`,
but not after one in a sourced file.

`__handloom_lend` reads secrets from a pipe for the next command, each for which the shell has no variable, and
`__handloom_take_back` unsets them when it ends, and nothing but names, because bash evaluates a subscript. What the
command started keeps its copies. The values are in no line that bash could trace.
"""


def init_script(nonce: str) -> str:
    """Return the shell's init file for a session with this nonce."""
    script = INIT_SCRIPT.replace("@NONCE@", nonce).replace("@LEAD@", _LEAD)
    script = script.replace("@MAJOR@", str(MIN_BASH[0])).replace("@MINOR@", str(MIN_BASH[1]))
    return script.replace("@BEGIN@", PS1_BEGIN).replace("@END@", PS1_END)


def environment_script(changes: Mapping[str, str | None]) -> str:
    """Return what the shell runs to change these variables; None removes one."""
    lines = (
        f"unset -v {name} || :" if value is None else f"export {name}={shlex.quote(value)} || :"
        for name, value in changes.items()
    )
    return "\n".join(lines) + "\n"


def command_line(path: str, number: int, *, environment: str = "", pipe: str = "", names: Sequence[str] = ()) -> bytes:
    """Return what is typed to run the commands in the file `path`; far below the terminal's limit of 4,096 bytes.

    When the shell has started, it writes `number` to `begun_file(path)`. Later prompts carry `number`, so that a
    delayed prompt is not taken for the end of this command. The command still finds `$?` of the previous one. The
    values of the secrets `names` are in `pipe`, and `environment` is a file with an `environment_script`.
    """
    arguments = shlex.join([begun_file(path), environment, *([pipe, *names] if names else [])])
    begin, end = f"{{ __handloom_begin {number} {arguments}; }} 2>/dev/null", "{ __handloom_prompt; } 3>&2 2>/dev/null"
    return f" {begin}; . {shlex.quote(path)}; {end}\n".encode()


def begun_file(path: str) -> str:
    """Return the file with the number of the command that was started last."""
    return f"{path}.begun"


class Prompt(NamedTuple):
    """The shell is ready: the number of the command that ended, and what the prompt says."""

    number: int
    metadata: CmdOutputMetadata


class PromptFilter:
    """Splits terminal output into output and prompts."""

    def __init__(self, nonce: str) -> None:
        self._begin = (_LEAD + PS1_BEGIN + nonce).encode()
        self._end = PS1_END.encode()
        self._held = b""

    def feed(self, data: bytes) -> Iterator[bytes | Prompt]:
        """Yield output and prompts in order. An incomplete block is held back until its end arrives."""
        data = self._held + data
        self._held = b""
        while (begin := data.find(self._begin)) >= 0:
            if begin:
                yield data[:begin]
            end = data.find(self._end, begin)
            if end < 0:
                self._held = data[begin:]
                return
            yield parse_prompt(data[begin + len(self._begin) : end])
            data = data[end + len(self._end) :]
        lead = data.rfind(self._begin[:1], max(0, len(data) - len(self._begin) + 1))
        if lead >= 0 and self._begin.startswith(data[lead:]):
            self._held, data = data[lead:], data[:lead]
        if data:
            yield data


def parse_prompt(block: bytes) -> Prompt:
    """Parse a prompt's JSON; unreadable fields keep their defaults."""
    text = block.decode("utf-8", "replace").replace("\r\n", "\n")
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        data = {}
    data = data if isinstance(data, dict) else {}
    metadata = CmdOutputMetadata(
        exit_code=_number(data.get("exit_code")),
        pid=_number(data.get("pid")),
        username=data.get("username") or None,
        hostname=data.get("hostname") or None,
        working_dir=data.get("working_dir") or None,
        py_interpreter_path=data.get("py_interpreter_path") or None,
    )
    return Prompt(_number(data.get("number")), metadata)


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and re.fullmatch(r"\d{1,9}", text) else -1


HELP = (
    "You may wait longer to see additional output by sending empty command '', "
    "send other commands to interact with the current process, "
    'send keys ("C-c", "C-z", "C-d") to interrupt/kill the previous command before sending your new command, '
    "or use the timeout parameter in execute_bash for future commands."
)
CONTINUED = "[Below is the output of the previous command.]\n"
NOTHING_TO_RETRIEVE = "ERROR: No previous running command to retrieve logs from."
NOTHING_TO_INTERACT = "ERROR: No previous running command to interact with."
WAITS = (
    "\n[The command is waiting for input. Send the input with `is_input` set to `true`, "
    'or send keys ("C-c", "C-z", "C-d") to interrupt/kill the command.]'
)

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


def fresh_shell(folder: str) -> str:
    """Return the note about a shell that was replaced."""
    return f"A fresh shell was started in {folder}; the old one's variables, functions and aliases are gone."
