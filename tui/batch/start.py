"""`handloom batch` at a terminal: starts the process that works on the batch, and shows its screen.

That process (`tui.batch.cli`) has a session of its own, so it survives the terminal; what it prints goes to
`batch.log`. It tells by a pipe when the batch has begun. If it ends before that, its error is printed here, as if it
had run in the foreground. Imports little, because it runs before the first frame. Blocks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from core.environment import THEMES, home_folder
from core.errors import ExitStatus
from core.interpreter import start_command
from core.settings.screen_settings import ScreenSettings, read
from tui.cli.options import StartOptions
from tui.cli.output import notice, say
from tui.i18n import _

DATABASE, LOG = "batch.db", "batch.log"
ATTACH = "attach"
"""In the place of the list of tasks: show a batch that another process runs."""
MAX_ERROR_BYTES = 20_000


def run(
    options: argparse.Namespace,
    words: Sequence[str],
    speak: Callable[[str], None],
    show: Callable[[StartOptions], int],
) -> int | None:
    """Start a batch if the command line has one, show it with `show`, and return the exit status.

    Returns None if there is no terminal to show it on: then it runs in this process, and prints lines.
    """
    is_attached = str(options.tasks) == ATTACH
    named = options.attached if is_attached else options.out
    screen = _screen_settings(options)
    if named is None or options.ready_fd is not None or (screen is None and (is_attached or not options.detach)):
        return None
    folder = named.absolute()
    if screen is not None:
        speak(screen.language)
    if not is_attached and (status := start(words, folder)):
        return status
    if screen is not None and not options.detach:
        if is_attached and not (folder / DATABASE).is_file():
            return None  # which reports it
        home = home_folder(os.environ)
        start_options = StartOptions(os.getcwd(), home=home, screen=screen, themes_dir=str(home / THEMES), batch=folder)
        if status := show(start_options):
            return status
    return _report(folder)


def _screen_settings(options: argparse.Namespace) -> ScreenSettings | None:
    """The settings of the screen; None if there is none here, or it is not wanted."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    is_terminal = all(stream.isatty() for stream in streams) and os.environ.get("TERM", "") not in ("", "dumb")
    if options.plain or options.json or not is_terminal:
        return None
    screen = read(home_folder(os.environ), os.environ)
    return None if screen.screen_reader else screen


def _report(folder: Path) -> int:
    """Say whether the batch goes on or how it ended, and return the exit status."""
    from core.batch.progress import ProgressReader
    from core.batch.results import RESULTS
    from tui.batch.batch_rows import shown_path, standing, summary

    with ProgressReader(folder) as reader:
        progress = reader.read()
    if progress.is_alive:
        notice(
            _("The batch goes on. To see it: {command}").format(command=f"handloom batch {ATTACH} {shown_path(folder)}")
        )
        return ExitStatus.FINISHED
    notice(summary(progress))
    notice(standing(progress, folder)[0])
    if (folder / RESULTS).is_file():
        say(str(folder / RESULTS))
    return progress.status


def start(words: Sequence[str], out: Path) -> int:
    """Start the process of a batch with this command line. Returns 0 once the batch runs, else its exit status."""
    is_new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        log = os.open(out / LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        notice(f"handloom: The folder {out} cannot be used: {error.strerror or error}.")
        return ExitStatus.USAGE
    heard, ready = os.pipe()
    try:
        os.fchmod(log, 0o600)
        before = os.fstat(log).st_size
        command = start_command("tui", *_with_options(words, "--plain", f"--ready-fd={ready}"))
        driver = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(ready,), start_new_session=True
        )
        os.close(ready)
        ready = -1
        if os.read(heard, 1):
            driver.returncode = 0  # it goes on without this process, which does not wait for it
            return 0
        status = driver.wait()
        said = os.pread(log, MAX_ERROR_BYTES, before).decode("utf-8", "replace")
    finally:
        for fd in (heard, ready, log):
            if fd >= 0:
                os.close(fd)
    notice(said.rstrip("\n"))
    if is_new:
        with suppress(OSError):  # it has more than the log
            if [path.name for path in out.iterdir()] == [LOG]:
                (out / LOG).unlink()
                out.rmdir()
    return status if status > 0 else ExitStatus.ERROR


def _with_options(words: Sequence[str], *options: str) -> list[str]:
    """A command line with more options; after `--` there are none."""
    end = words.index("--") if "--" in words else len(words)
    return [*(word for word in words[:end] if word != "--detach"), *options, *words[end:]]
