"""The composition root: the command line, the choice of a runtime, and the start of what was asked for.

Imports as little as the first frame needs; everything of `core` and `runtime` is imported by the branch that uses it.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tui import i18n
from tui.cli import failure_report
from tui.cli.command_line import KEEPS_AGENT, parser

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from tui.cli.options import StartOptions


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the answer is the exit status. The terminal is left as it was found."""
    sys.excepthook = failure_report.tell
    options = parser().parse_args(arguments)
    if options.version:
        from importlib.metadata import version

        sys.stdout.write(f"handloom {version('handloom')}\n")
        return 0
    if options.command in (None, "demo"):
        return _workspace(options)
    if options.command == "replay":
        return _replay(options)
    return _plain(options)


def _plain(options: argparse.Namespace) -> int:
    import asyncio

    from core.errors import ExitStatus, HandloomError
    from tui.cli import output

    try:
        match options.command:
            case "run":
                from tui.cli import run

                return int(asyncio.run(run.run(options)))
            case "acp":
                return _acp(options)
            case "again":
                from tui.rerun import cli as rerun_cli

                return int(asyncio.run(rerun_cli.run(options)))
            case "list" | "search" | "rename" | "delete":
                return int(asyncio.run(_session_command(options)))
            case "serve":
                from tui.serve import cli as serve_cli

                return asyncio.run(serve_cli.serve(options))
            case "doctor":
                return _doctor(options)
            case "agents":
                from tui.agents import cli as agents_cli

                return agents_cli.agents(options)
            case "memory":
                from tui.memory import cli as memory_cli

                return memory_cli.memory(options)
            case "secrets":
                from tui.secrets import cli as secrets_cli

                return int(secrets_cli.secrets(options))
            case "trust":
                from tui.trust import cli as trust_cli

                return trust_cli.trust(options)
            case "keys":
                return _keys(options)
            case "permissions":
                from tui.permissions import cli as permissions_cli

                return permissions_cli.permissions(options)
            case "show":
                from tui.statistics import cli as statistics_cli

                return int(asyncio.run(statistics_cli.show(options)))
            case "import":
                from tui.export import import_cli

                return int(asyncio.run(import_cli.import_conversation(options)))
            case "image":
                from tui.cli import image

                return int(asyncio.run(image.build(options)))
            case _:
                from tui.export import cli as export_cli

                return int(asyncio.run(export_cli.export(options)))
    except HandloomError as error:
        output.notice(f"handloom: {error}")
        return ExitStatus.USAGE  # nothing has happened yet: what fails later is told by the command itself
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains once more
        return ExitStatus.ERROR
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED


def _acp(options: argparse.Namespace) -> int:
    """Serve an editor. It names the folder of each conversation itself."""
    import asyncio

    from core.home import home_folder
    from core.settings import screen_settings

    speak(screen_settings.read(home_folder(os.environ), os.environ).language)
    from tui.acp.serve import serve
    from tui.cli.options import StartOptions

    start = StartOptions(os.getcwd(), options.model, runtime=options.runtime, trusts=options.trust)
    return int(asyncio.run(serve(lambda: connect(start, ahead=False))))


async def _session_command(options: argparse.Namespace) -> int:
    from tui.sessions import cli as sessions_cli

    commands = {
        "list": sessions_cli.list_conversations,
        "search": sessions_cli.search,
        "rename": sessions_cli.rename,
        "delete": sessions_cli.delete,
    }
    return await commands[options.command](options)


def _doctor(options: argparse.Namespace) -> int:
    import asyncio

    from core.home import home_folder
    from core.settings import screen_settings

    home = home_folder(os.environ)
    speak(screen_settings.read(home, os.environ).language)
    if options.mend or options.index:
        from tui.doctor import repair_cli

        return int(asyncio.run(repair_cli.run(options)))
    from tui.shortcuts import keymap

    keymap.use(keymap.read(home, os.environ))
    from tui.doctor import report

    return int(asyncio.run(report.doctor(options)))


def _keys(options: argparse.Namespace) -> int:
    from core.home import home_folder
    from core.settings import screen_settings
    from tui.shortcuts import keymap

    home = home_folder(os.environ)
    speak(screen_settings.read(home, os.environ).language)
    keymap.use(keymap.read(home, os.environ))
    from tui.shortcuts import cli as shortcuts_cli

    return shortcuts_cli.keys(options)


def _workspace(options: argparse.Namespace) -> int:
    from tui.cli.options import StartOptions

    start = StartOptions.from_arguments(options)
    speak(start.screen.language)
    if options.agent and options.resume is not None:
        sys.stderr.write(f"handloom: {KEEPS_AGENT}\n")
        return 2
    by_lines = options.screen_reader or start.screen.screen_reader
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
    """Run the screen until the user leaves it."""
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
    """Show a saved conversation, of this home or of a file; nothing that could act is started."""
    from contextlib import ExitStack

    from core.errors import HandloomError
    from core.home import home_folder
    from tui.cli.options import ReplayStart, StartOptions
    from tui.replay import cli as replay_cli

    home = home_folder(os.environ)
    with ExitStack() as stack:
        start = StartOptions.from_arguments(options, ReplayStart(options.what, home, options.speed))
        speak(start.screen.language)
        if wrong := _wrong_terminal():
            sys.stderr.write(f"handloom: {wrong}\n")
            return 2
        try:
            kept, conversation_id = replay_cli.find(options.what, home, stack)
        except HandloomError as error:
            sys.stderr.write(f"handloom: {error}\n")
            return 2
        return _show(replace(start, replay=ReplayStart(conversation_id, kept, options.speed)))


def speak(setting: str) -> None:
    """Choose the language of the screen; English where the terminal has no letters for another.

    Called before anything of the screen is imported, because texts of modules are made once.
    """
    from tui.terminal_io.glyphs import speaks_utf8

    i18n.use(i18n.wanted(setting, os.environ) if speaks_utf8(os.environ) else "en")


def _wrong_terminal() -> str:
    """Why the workspace cannot be drawn here; empty where it can."""
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

    try:
        return int(asyncio.run(screen_reader.run(start, lambda: connect(start))))
    except HandloomError as error:
        output.notice(f"handloom: {error}")
        return ExitStatus.USAGE


def _wrong_repository(start: StartOptions) -> str:
    """Why the repository cannot be had, before the screen opens; empty where it can."""
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
    """The manager behind the workspace, entered. Raises HandloomError with what to do next.

    `ahead` has a sandbox made for the workspace before there is a conversation in it.
    """
    import asyncio
    from importlib import import_module

    # off the loop: the first frame is on the screen already
    for module in ("core.conversations.conversation_manager", "runtime.local.local_runtime"):
        await asyncio.to_thread(import_module, module)
    from core.conversations.conversation_manager import ConversationManager
    from core.home import home_folder
    from core.logs import log_to
    from core.settings.config import load
    from tui.cli.failure_report import mask_here
    from tui.runtime_factory import Runtimes

    home, mask = home_folder(os.environ), mask_here
    with suppress(OSError):  # the store says what is wrong with the folder, and what to do
        await asyncio.to_thread(log_to, home, lambda line: mask(line))  # noqa: PLW0108 -- the one of the manager, once there is one
    given = {"model": options.model, "runtime": options.runtime, "agent__name": options.agent}
    if options.trusts:
        given["trust__projects"] = "always"
    settings = await asyncio.to_thread(load, home, os.environ, **given)
    runtimes = Runtimes(home, lambda: manager.settings, os.environ)
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
    mask = manager.mask
    await manager.__aenter__()
    if ahead and not options.demo:
        await runtimes.warm(options.workspace)
    if any(plugin.cards for plugin in manager.factory.plugins):
        from tui.chat.action_text import use_cards

        await asyncio.to_thread(use_cards, manager.factory.plugins)
    return manager


if __name__ == "__main__":
    sys.exit(main())
