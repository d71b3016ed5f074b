"""What the agent is told about the place where its commands run: system, shell, isolation, network, git and programs.

`SCRIPT` finds out what only a look into the sandbox can tell. It reads and changes nothing, runs no program that a
repository names, except where `WITH_STATE` allows git to compare files, and prints what takes longest last, so that a
time limit costs only that. All of its output is text of the sandbox: `parsed` limits and cleans it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

TIMEOUT_S = 1.0
"""It usually takes some ten milliseconds; git needs longer in a large repository."""
WITH_STATE = {"HANDLOOM_GIT_STATE": "1"}
"""In the environment of the script: compare files with git's index, which may run filters that the repository names."""
SYSTEM, SHELL, SANDBOX, NETWORK, PROGRAMS, GIT = "System", "Shell", "Sandbox", "Network", "Programs", "Git"
ORDER = (SYSTEM, SHELL, SANDBOX, NETWORK, PROGRAMS, GIT)
_PRINTED = {"system": SYSTEM, "shell": SHELL, "programs": PROGRAMS, "git": GIT}
VALUE_CHARS = 240
MAX_OUTPUT_BYTES = 4096
SHOWN_HOSTS = 8

NO_SANDBOX = "none, commands run on the user's machine with the user's permissions"
BUBBLEWRAP = "bubblewrap; only the workspace and /tmp can be written, the user's home is hidden"
CONTAINER = "a container; of the user's machine it has only the workspace"
ELSEWHERE = "another machine, which has the workspace"
NO_NETWORK, UNLIMITED, UNKNOWN_NETWORK = "none", "not limited", "that of the other machine"

SCRIPT = r"""
export GIT_OPTIONAL_LOCKS=0 LC_ALL=C
name=$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null | tr -d '"')
[ -n "$name" ] || name=$(uname -sr)
printf 'system\t%s, %s\n' "$name" "$(uname -m)"
version=$(bash -c 'echo "${BASH_VERSION%%(*}"' 2>/dev/null)
printf 'shell\tbash %s\n' "$version"
found= missing=
for name in python3 node git rg make gcc; do
    if command -v "$name" >/dev/null 2>&1; then found="$found, $name"; else missing="$missing, $name"; fi
done
for name in python pip uv npm g++ clang cmake cargo go java jq curl; do
    command -v "$name" >/dev/null 2>&1 && found="$found, $name"
done
[ -z "$missing" ] || missing="; missing: ${missing#, }"
printf 'programs\t%s%s\n' "${found#, }" "$missing"
command -v git >/dev/null 2>&1 || exit 0
folder=$(git rev-parse --git-dir 2>/dev/null) || { [ -e .git ] || printf 'git\tno repository\n'; exit 0; }
branch=$(git symbolic-ref --quiet --short HEAD) && where="branch $branch" || where="no branch"
for step in rebase-merge rebase-apply MERGE_HEAD CHERRY_PICK_HEAD; do
    [ -e "$folder/$step" ] && where="$where, a $(echo "${step%%[-_]*}" | tr A-Z a-z) is in progress"
done
printf 'git\t%s\n' "$where"
[ -n "$HANDLOOM_GIT_STATE" ] || exit 0
changed=$(git -c core.fsmonitor=false status --porcelain 2>/dev/null) || exit 0
[ -n "$changed" ] && printf 'git\t%s, uncommitted changes\n' "$where" || printf 'git\t%s, clean\n' "$where"
"""


def network_text(hosts: Sequence[str]) -> str:
    """Return the fact about the network of a sandbox that reaches these hosts, in the syntax of `allowed_hosts`."""
    if "*" in hosts:
        return "every host, through a proxy"
    more = f" and {len(hosts) - SHOWN_HOSTS} more" if len(hosts) > SHOWN_HOSTS else ""
    return f"only to {', '.join(hosts[:SHOWN_HOSTS])}{more}, through a proxy" if hosts else NO_NETWORK


def parsed(output: bytes) -> dict[str, str]:
    """Return the facts that the script printed; of a fact that it printed twice, the last."""
    facts = {}
    for line in output[:MAX_OUTPUT_BYTES].decode("utf-8", "replace").split("\n")[:-1]:
        name, _tab, value = line.partition("\t")
        value = "".join(letter for letter in value if letter.isprintable())[:VALUE_CHARS].strip()
        if name in _PRINTED and value:
            facts[_PRINTED[name]] = value
    return facts


def ordered(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the known facts in the order in which they are told."""
    return {name: facts[name] for name in ORDER if name in facts}


def run_script(
    before: Sequence[str],
    *,
    folder: str,
    environ: Mapping[str, str],
    fds: Sequence[int] = (),
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """Run the script after these words and return its output, which ends early at the time limit. Blocks.

    Raises OSError.
    """
    process = subprocess.Popen(
        [*before, "/bin/sh", "-c", SCRIPT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=dict(environ),
        pass_fds=tuple(fds),
        start_new_session=True,
    )
    with process:
        try:
            return process.communicate(timeout=timeout_s)[0]
        except subprocess.TimeoutExpired as expired:
            os.killpg(process.pid, signal.SIGKILL)
            return expired.output or b""
