"""The composition root: parses the command line and starts what it asks for.

Imports no more than the first frame needs; each branch imports what it uses of `core` and `runtime`.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from tui import i18n
from tui.cli import failure_report
from tui.cli.command_line import (
    KEEPS_AGENT,
    KEEPS_INSTRUCTIONS,
    LONG_INSTRUCTIONS,
    MAX_INSTRUCTIONS_CHARS,
    parse,
)

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from tui.cli.options import StartOptions


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status. The terminal is restored."""
    sys.excepthook = failure_report.report_exception
    words = sys.argv[1:] if arguments is None else arguments
    options = parse(words)
    if options.version:
        from importlib.metadata import version

        sys.stdout.write(f"handloom {version('handloom')}\n")
        return 0
    if options.command in (None, "demo", "replay"):
        gc.disable()  # until the workspace is open: nearly everything that a start creates stays
        return _replay(options) if options.command == "replay" else _workspace(options)
    if options.command == "batch" and (status := _batch(options, words)) is not None:
        return status
    return _verb(options)


VERBS = {
    "run": "tui.cli.run:run",
    "again": "tui.rerun.cli:run",
    "rerun": "tui.rerun.cli:run",
    "batch": "tui.batch.cli:batch",
    "list": "tui.sessions.cli:list_conversations",
    "search": "tui.sessions.cli:search",
    "rename": "tui.sessions.cli:rename",
    "delete": "tui.sessions.cli:delete",
    "serve": "tui.serve.web_server:serve",
    "agents": "tui.agents.cli:agents",
    "memory": "tui.memory.cli:memory",
    "secrets": "tui.secrets.cli:secrets",
    "trust": "tui.trust.cli:trust",
    "permissions": "tui.approval.cli:permissions",
    "show": "tui.statistics.cli:show",
    "import": "tui.export.cli:import_conversation",
    "image": "tui.cli.image:build",
    "export": "tui.export.cli:export",
    "completion": "tui.cli.completion:completion",
}
"""The function of each verb, imported when it is used. It takes the options and returns, or awaits, the exit status."""


def _verb(options: argparse.Namespace) -> int:
    import asyncio

    from core.errors import ExitStatus, HandloomError
    from tui.cli import output

    try:
        if (run := {"acp": _acp, "doctor": _doctor, "keys": _keys}.get(options.command)) is not None:
            return run(options)
        module, _colon, name = VERBS[options.command].partition(":")
        status = getattr(import_module(module), name)(options)
        return int(asyncio.run(status) if asyncio.iscoroutine(status) else status)
    except HandloomError as error:
        output.notice(f"handloom: {error}")
        return ExitStatus.USAGE  # nothing has happened yet: verbs report later errors themselves
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter reports it again
        return ExitStatus.ERROR
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED


def _batch(options: argparse.Namespace, words: list[str]) -> int | None:
    """Start a batch in the background, or show one. Returns None if it runs in this process, and prints lines."""
    from tui.batch import start

    return start.run(options, words, speak, _show)


def _acp(options: argparse.Namespace) -> int:
    import asyncio

    _set_language_and_keys()
    from tui.acp.server import serve
    from tui.cli.options import StartOptions

    if len(options.instructions or "") > MAX_INSTRUCTIONS_CHARS:
        sys.stderr.write(f"handloom: {LONG_INSTRUCTIONS}\n")
        return 2
    start = StartOptions(
        os.getcwd(), options.model, instructions=options.instructions, runtime=options.runtime, trusts=options.trust
    )
    return int(asyncio.run(serve(lambda: connect(start, ahead=False))))


def _doctor(options: argparse.Namespace) -> int:
    import asyncio

    _set_language_and_keys()
    if options.repair or options.index:
        from tui.doctor import repair_cli

        return int(asyncio.run(repair_cli.run(options)))
    from tui.doctor import report

    return int(asyncio.run(report.doctor(options)))


def _keys(options: argparse.Namespace) -> int:
    _set_language_and_keys()
    from tui.shortcuts import cli

    return cli.keys(options)


def _set_language_and_keys() -> None:
    """Set both before modules are imported that contain texts of the screen."""
    from core.environment import home_folder
    from core.settings import screen_settings

    home = home_folder(os.environ)
    speak(screen_settings.read(home, os.environ).language)
    from tui.shortcuts import keymap

    keymap.use(keymap.read(home, os.environ))


def _wrong_instructions(options: argparse.Namespace) -> str:
    if options.instructions and options.resume is not None:
        return KEEPS_INSTRUCTIONS
    return LONG_INSTRUCTIONS if len(options.instructions or "") > MAX_INSTRUCTIONS_CHARS else ""


def _workspace(options: argparse.Namespace) -> int:
    from tui.cli.options import StartOptions

    start = StartOptions.from_arguments(options)
    speak(start.screen.language)
    if options.agent and options.resume is not None:
        sys.stderr.write(f"handloom: {KEEPS_AGENT}\n")
        return 2
    if wrong := _wrong_instructions(options):
        sys.stderr.write(f"handloom: {wrong}\n")
        return 2
    by_lines = options.screen_reader or start.screen.screen_reader
    if by_lines and start.task:
        sys.stderr.write("handloom: Type the task after the start; --screen-reader takes none.\n")
        return 2
    if not by_lines and (wrong := _wrong_terminal()):
        sys.stderr.write(f"handloom: {wrong}\n")
        return 2
    if not (os.path.isdir(start.workspace) and os.access(start.workspace, os.R_OK | os.X_OK)):
        sys.stderr.write(f"handloom: {start.workspace!a} is not a readable folder. Name another.\n")
        return 2
    if start.repository and (wrong := _wrong_repository(start)):
        sys.stderr.write(f"handloom: {wrong}\n")
        return 2
    if by_lines:
        return _by_lines(start)
    return _show(start)


def _show(start: StartOptions) -> int:
    from tui.shortcuts import keymap

    if start.home is not None:
        keymap.use(keymap.read(start.home, os.environ))  # before the table of commands is imported
    from tui.app import HandloomApp
    from tui.terminal_io.escapes import reset_terminal

    reset_terminal(sys.stdout.fileno())
    app = HandloomApp(lambda: connect(start), start)
    app.run()
    sys.stdout.write(app.last_words)
    return app.return_code or 0


def _replay(options: argparse.Namespace) -> int:
    """Show a saved conversation, of this home or of a file. Starts nothing that could act."""
    from contextlib import ExitStack

    from core.environment import home_folder
    from core.errors import HandloomError
    from tui.cli.options import ReplayStart, StartOptions

    home = home_folder(os.environ)
    with ExitStack() as stack:
        start = StartOptions.from_arguments(options, ReplayStart(options.what, home, options.speed))
        speak(start.screen.language)
        if wrong := _wrong_terminal():
            sys.stderr.write(f"handloom: {wrong}\n")
            return 2
        from tui.library.cli import home_of  # after `speak`, because these have texts
        from tui.replay.replay_start import resolve_source

        try:
            kept, conversation_id = resolve_source(options.what, partial(home_of, home, options), stack)
        except HandloomError as error:
            sys.stderr.write(f"handloom: {error}\n")
            return 2
        return _show(replace(start, replay=ReplayStart(conversation_id, kept, options.speed)))


def speak(setting: str) -> None:
    """Set the language of the screen; English if the terminal has no UTF-8.

    Called before modules are imported that contain texts of the screen.
    """
    from tui.terminal_io.glyphs import speaks_utf8

    i18n.use(i18n.wanted(setting, os.environ) if speaks_utf8(os.environ) else "en")


def _wrong_terminal() -> str:
    """Why the workspace cannot be drawn here; empty if it can."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return "the workspace needs a terminal. Without one, use: handloom run TASK"
    if os.environ.get("TERM", "") in ("", "dumb"):
        return (
            "this terminal cannot show a full screen (TERM is dumb or not set). Use: "
            "handloom --screen-reader, or handloom run TASK"
        )
    return ""


def _by_lines(start: StartOptions) -> int:
    import asyncio

    from core.errors import ExitStatus, HandloomError
    from tui.cli import output
    from tui.screen_reader import screen_reader

    gc.enable()
    try:
        return int(asyncio.run(screen_reader.run(start, lambda: connect(start))))
    except HandloomError as error:
        output.notice(f"handloom: {error}")
        return ExitStatus.USAGE


def _wrong_repository(start: StartOptions) -> str:
    """Why the repository cannot be used; empty if it can."""
    from core.errors import UsageError
    from core.repository import Repository

    if start.resume is not None:
        return "--resume and --repo cannot be combined: a conversation keeps its repository."
    try:
        Repository.parse(start.repository)
    except UsageError as error:
        return str(error)
    return ""


async def connect(options: StartOptions, *, ahead: bool = True) -> ConversationManager:
    """Create and enter the manager. Raises HandloomError with what to do next.

    `ahead` prepares a sandbox for the workspace before it has a conversation.
    """
    import asyncio

    # in a thread: the first frame has been drawn already
    for module in ("core.conversations.conversation_manager", "runtime.local.local_runtime"):
        await asyncio.to_thread(import_module, module)
    from core.conversations.conversation_manager import ConversationManager
    from core.environment import home_folder
    from core.logs import log_to
    from core.settings.config import load
    from tui.cli.failure_report import redact_environment
    from tui.runtime_factory import RuntimeFactory

    home, redact = home_folder(os.environ), redact_environment
    with suppress(OSError):  # the store reports what is wrong with the folder
        await asyncio.to_thread(log_to, home, lambda line: redact(line))  # noqa: PLW0108 -- the one of the manager, once there is one
    given = {"model": options.model, "runtime": options.runtime}
    given |= {"agent__name": options.agent, "agent__instructions": options.instructions}
    given["agent__confirm"] = options.confirm
    if options.trusts:
        given["trust__projects"] = "always"
    settings = await asyncio.to_thread(load, home, os.environ, **given)
    runtimes = RuntimeFactory(home, lambda: manager.settings, os.environ)
    manager = ConversationManager(
        home,
        settings,
        make_runtime=runtimes,
        make_checkpoints=runtimes.checkpoints,
        forget=runtimes.forget,
        around=runtimes,
        before_server=runtimes.before_server,
        environ=os.environ,
        options=given,
    )
    redact = manager.redact
    await manager.__aenter__()
    if ahead and not options.demo and options.batch is None:
        await runtimes.warm(options.workspace)
    if any(plugin.cards for plugin in manager.factory.plugins):
        from tui.chat.event_text import use_cards

        await asyncio.to_thread(use_cards, manager.factory.plugins)
    return manager


if __name__ == "__main__":
    sys.exit(main())
