"""The system's keyring itself: gnome-keyring on a D-Bus of its own, empty, unlocked, locked, gone.

Skipped if the machine has none (`apt-get install gnome-keyring dbus`). Each test has a desktop session without a
display, so a locked keyring stays locked.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from core.secrets.vault import VALUES
from tests.doubles import FINISH, bash, write_script
from tests.program import HANDLOOM, Handloom

VALUE, SECOND = "canary-value-1", "canary-value-2"
WITHIN_S = 120
SAID = ("status", "out", "err")
UNLOCKED = "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null"
LOCKED = "gnome-keyring-daemon --start --components=secrets >/dev/null"
NEEDED = ("dbus-run-session", "gnome-keyring-daemon")
pytestmark = [
    pytest.mark.skipif(
        not all(map(shutil.which, NEEDED)), reason="no keyring here: apt-get install gnome-keyring dbus"
    ),
    pytest.mark.timeout(240),
]


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path, VALUE=VALUE, SECOND=SECOND, HANDLOOM__SANDBOX__ISOLATION="none")


def session(handloom: Handloom, begin: str, *commands: str) -> list[tuple[int, str, str]]:
    """The results of these commands in one session: status, output, errors."""
    folder = handloom.workspace.parent
    lines = [begin]
    for number, words in enumerate(commands):
        program = f"{shlex.join(HANDLOOM)} {words}"
        lines.append(f"{program} >{folder}/out{number} 2>{folder}/err{number}; echo $? >{folder}/status{number}")
    done = subprocess.run(
        ["dbus-run-session", "--", "sh", "-c", "\n".join(lines)],
        env=handloom.environ,
        cwd=handloom.workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [[(folder / f"{what}{number}").read_text() for what in SAID] for number in range(len(commands))]
    return [(int(status), out, err) for status, out, err in said]


def turns(handloom: Handloom) -> str:
    """The arguments of a run that shows whether the command got the value, but not the value."""
    shown = bash('printf %s "$TOKEN" | sha256sum; printf %s "$OTHER" | sha256sum')
    script = write_script(handloom.workspace.parent, [{"tool_calls": [shown]}, FINISH])
    return f"run go --json --model {script}"


def digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


def files_with(folder: Path, value: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]


def test_keyring_value_reaches_one_command_and_no_file(handloom: Handloom, tmp_path: Path) -> None:
    kept, listed, ran, gone, after = session(
        handloom,
        UNLOCKED,
        "secrets set TOKEN --from-env VALUE",
        "secrets list",
        turns(handloom),
        "secrets remove TOKEN",
        turns(handloom),
    )
    assert kept[0] == 0, kept
    assert "the system's keyring (SecretService)" in kept[2]
    assert "TOKEN" in listed[1]
    assert digest(VALUE) in ran[1], ran
    assert gone[0] == 0
    assert digest(VALUE) not in after[1]
    assert not (handloom.home / VALUES).exists()
    assert not files_with(tmp_path, VALUE)


def test_keyring_value_is_kept_and_unreachable_without_a_session(handloom: Handloom) -> None:
    assert session(handloom, UNLOCKED, "secrets set TOKEN --from-env VALUE")[0][0] == 0
    assert digest(VALUE) in session(handloom, UNLOCKED, turns(handloom))[0][1]
    refused = handloom("secrets", "set", "OTHER", "--from-env", "VALUE")
    assert refused.status == 2
    assert "cannot be reached" in refused.err
    assert "--file" in refused.err
    ran = handloom(*turns(handloom).split())
    assert "Its secrets could not be read" in ran.out
    assert digest(VALUE) not in ran.out
    assert not (handloom.home / VALUES).exists()


def test_locked_keyring_is_reported_and_file_used_on_request(handloom: Handloom, tmp_path: Path) -> None:
    assert session(handloom, UNLOCKED, "secrets set TOKEN --from-env VALUE")[0][0] == 0
    refused, ran, forced, ran_again = session(
        handloom,
        LOCKED,
        "secrets set OTHER --from-env SECOND",
        turns(handloom),
        "secrets set OTHER --from-env SECOND --file",
        turns(handloom),
    )
    assert refused[0] == 2
    assert refused[2].count("KeyringLocked") == 1
    assert "handloom secrets set NAME --file" in refused[2]
    assert "Its secrets could not be read" in ran[1]
    assert forced[0] == 0, forced
    assert str(handloom.home / VALUES) in forced[2]
    assert stat.S_IMODE((handloom.home / VALUES).stat().st_mode) == 0o600
    assert "Its secrets could not be read" in ran_again[1]
    assert files_with(tmp_path, SECOND) == [str(handloom.home / VALUES)]
    both = session(handloom, UNLOCKED, turns(handloom))[0][1]
    assert digest(VALUE) in both, "the keyring is still asked for what the file does not have"
    assert digest(SECOND) in both
