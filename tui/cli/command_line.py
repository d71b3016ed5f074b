"""The parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.import_export.agents.names import AGENTS

FORMATS = ("trajectory", "archive", "html", "markdown", "openhands-events", "asciicast")
"""As in `core.import_export.exporter`, which is slow to import; a test compares them."""
STATES = ("waits", "finished", "error", "stopped", "running")
"""As in `tui.sessions.filter_chips`; a test compares them."""
MAX_DAYS = 36_500
"""A century; dates cannot go back for ever."""
KEEPS_AGENT = "--resume and --agent cannot be combined: a conversation keeps its agent."
KEEPS_INSTRUCTIONS = "--resume and --instructions cannot be combined. Write the new instructions in a message."
MAX_INSTRUCTIONS_CHARS = 16_000
"""As in `core.settings.config`; a test compares them."""
LONG_INSTRUCTIONS = "--instructions can have at most 16,000 letters. Put the rest into AGENTS.md in the folder."

MODES = ("never", "risky", "always", "auto-edit", "plan")
"""The approval modes, as in `core.security.confirmation`; a test compares them."""
LAST = "last"
"""As an ID: the conversation that was used last. As in `core.store.conversations`; a test compares them."""

Commands = Any
"""The result of argparse's `add_subparsers`, which has no public type."""


WITH_VALUE = ("--model", "--runtime", "--agent", "--instructions", "--workspace", "--repo", "--confirm")
"""The options of the workspace that take a value."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, in which a sentence in the place of a command is a task for the workspace."""
    rest, task = list(arguments), ""
    for at, argument in enumerate(arguments):
        is_value = at > 0 and arguments[at - 1] in WITH_VALUE
        if is_value or argument.startswith("-"):
            continue
        if any(map(str.isspace, argument)):
            task = rest.pop(at)
        elif at > 0 and arguments[at - 1] == "--resume":
            continue
        break
    names = (argument for at, argument in enumerate(rest) if at == 0 or rest[at - 1] not in WITH_VALUE)
    opens_workspace = all(name in (*WITH_VALUE, "--screen-reader") for name in names)
    options = (_parser_of_workspace() if opens_workspace else parser()).parse_args(rest)
    if task and options.command is None:
        options.task = task
    elif task:
        parser().error(f"A task comes after the command: handloom {options.command} {task!a}.")
    return options


def _parser_of_workspace() -> argparse.ArgumentParser:
    """Return the parser without commands, for the usual start: those of the commands take longer than all else here."""
    top = argparse.ArgumentParser(
        prog="handloom",
        description="A full-screen, keyboard-driven terminal workspace in which people work with software agents.",
    )
    top.epilog = "handloom 'TASK IN WORDS' opens the workspace and sends the task."
    top.add_argument("--version", action="store_true", help="print the version and exit")
    _common(top)
    _mode(top)
    _resume(top)
    top.add_argument(
        "--screen-reader", action="store_true", help="use plain text lines instead of the full-screen workspace"
    )
    top.set_defaults(command=None)
    return top


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands. Wrong usage ends with exit status 2 and a line that says what is wrong."""
    top = _parser_of_workspace()
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    commands.add_parser(
        "demo", help="try the workspace with a scripted model in a temporary folder; needs no API key and no network"
    )

    _run(commands)
    _batch(commands)
    acp = commands.add_parser(
        "acp", help="serve an editor over the Agent Client Protocol; the editor starts this command"
    )
    acp.add_argument("--model", metavar="M", help="model: PROVIDER/NAME, scripted:FILE or demo")
    _runtime(acp)
    _instructions(acp)
    _trust_option(acp)
    agents = commands.add_parser("agents", help="list the available agents and problems with agent files")
    agents.add_argument("--workspace", metavar="DIR", default=".", help="include the agents of this project")
    agents.add_argument("--allow", metavar="NAME", help="show an agent of the project and allow it")
    _json_lines(agents)

    serve = commands.add_parser("serve", help="serve the workspace to a web browser on this machine; prints the URL")
    serve.add_argument(
        "--port", type=_port, default=0, metavar="N", help="port on the loopback interface (default: any free port)"
    )
    serve.add_argument(
        "--token-file",
        metavar="FILE",
        help="keep the access token in this file, so that open pages reconnect after a restart",
    )
    _common(serve)
    _mode(serve)
    _resume(serve)

    _memory(commands)
    _secrets(commands)
    _trust(commands)
    _conversations(commands)
    _export_import(commands)
    _replay(commands)

    _permissions(commands)
    keys = commands.add_parser(
        "keys", help="list all commands with their shortcuts and problems with your own shortcuts"
    )
    keys.add_argument("--test", action="store_true", help="show what each pressed key sends and which command it runs")
    _doctor(commands)

    image = commands.add_parser("image", help="manage the image for Docker sandboxes")
    building = image.add_subparsers(dest="step", metavar="STEP", required=True).add_parser(
        "build", help="build the image if it does not exist; prints its name"
    )
    building.add_argument("--base", metavar="IMAGE", help="Debian-based image to build on")
    building.add_argument(
        "--with",
        action="append",
        choices=["vscode"],
        default=[],
        dest="extras",
        help="add VS Code for the browser (code-server)",
    )
    building.add_argument("--force", action="store_true", help="rebuild every step")

    completion = commands.add_parser("completion", help="print the script with which a shell completes commands")
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")
    return top


def _memory(commands: Commands) -> None:
    memory = commands.add_parser("memory", help="list, add and remove memories")
    steps = memory.add_subparsers(dest="step", metavar="STEP", required=True)
    _json_lines(steps.add_parser("list", help="list memories with their numbers"))
    adding = steps.add_parser("add", help="add a memory for this project")
    adding.add_argument("text", metavar="TEXT")
    adding.add_argument("--workspace", metavar="DIR", default=".", help="add it for this project instead")
    adding.add_argument("--everywhere", action="store_true", help="add it for all projects")
    forgetting = steps.add_parser("forget", help="remove a memory")
    forgetting.add_argument("number", metavar="NUMBER", type=_count, help="number in the list")


def _secrets(commands: Commands) -> None:
    top = commands.add_parser("secrets", help="manage secrets that commands can use but agents cannot see")
    steps = top.add_subparsers(dest="step", metavar="STEP", required=True)
    put = steps.add_parser("set", help="store a secret; its value is typed without being shown")
    put.add_argument("name", metavar="NAME", help="name; commands use it as $NAME")
    source = put.add_mutually_exclusive_group()
    source.add_argument("--from-env", metavar="VARIABLE", help="read the value from this environment variable")
    source.add_argument("--stdin", action="store_true", help="read the value from standard input")
    put.add_argument("--file", action="store_true", help="store it in a private file instead of the keyring")
    put.add_argument("--description", metavar="TEXT", help="what it is for; agents see this and the name")
    _json_lines(steps.add_parser("list", help="list names and descriptions"))
    gone = steps.add_parser("remove", help="remove a secret")
    gone.add_argument("name", metavar="NAME")
    for command in (put, gone):
        scope = command.add_mutually_exclusive_group()
        scope.add_argument("--folder", metavar="DIR", help="only for this folder")
        scope.add_argument("--conversation", metavar="ID", help="only for this conversation")
        scope.add_argument(
            "--git", action="store_true", help="only for git, as the token of a host; no command gets it"
        )
        scope.add_argument(
            "--models", action="store_true", help="only for models, as a provider's key; no command gets it"
        )
    steps.add_parser("adopt", help="move API keys from config.toml to the secret store")
    shown = steps.add_parser("allow", help="stop redacting one kind of possible secret")
    shown.add_argument("kind", metavar="KIND", help="the kind as the notice names it, such as 'a JSON web token'")


def _trust(commands: Commands) -> None:
    steps = commands.add_parser("trust", help="manage the folders whose instructions, skills and hooks are used")
    steps = steps.add_subparsers(dest="step", metavar="STEP", required=True)
    _json_lines(steps.add_parser("list", help="list the trusted folders with their number of files"))
    give = steps.add_parser("give", help="show the files of a folder and trust them")
    give.add_argument("folder", metavar="DIR", nargs="?", default=".")
    give.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    revoke = steps.add_parser("revoke", help="stop trusting a folder")
    revoke.add_argument("folder", metavar="DIR", nargs="?", default=".")


def _permissions(commands: Commands) -> None:
    permissions = commands.add_parser("permissions", help="list, revoke and check permissions")
    steps = permissions.add_subparsers(dest="step", metavar="STEP", required=True)
    _json_lines(steps.add_parser("list", help="list all permissions and rules"))
    revoke = steps.add_parser("revoke", help="revoke permissions")
    revoke.add_argument("ids", metavar="ID", nargs="+", help="the ID in the first column of the list")
    check = steps.add_parser(
        "check",
        help="show whether commands would be allowed, without running them",
        description=(
            "Checks commands as if one shell ran them one after the other. Exit status: 0 "
            "all are allowed, 3 one needs confirmation, 4 one is denied, 2 the request is "
            "invalid. With --json -, each line of standard input is an object with "
            "commands, mode and rules, each result is one line, and the exit status is 0."
        ),
    )
    check.add_argument(
        "commands", metavar="CMD", nargs="+", help="a command; - with --json reads requests from standard input"
    )
    check.add_argument("--mode", default="risky", metavar="M", help="mode: always, risky, auto-edit, plan or never")
    _json(check)


def _doctor(commands: Commands) -> None:
    doctor = commands.add_parser("doctor", help="check this machine for missing requirements")
    _json(doctor)
    doctor.add_argument("--cluster", metavar="WHERE", help="check a cluster for batches: ray or ray://HOST:PORT")
    doctor.add_argument("--repair", action="store_true", help="check stored data and recover what is readable")
    doctor.add_argument("--mend", dest="repair", action="store_true", help=argparse.SUPPRESS)  # its old name
    doctor.add_argument("--index", action="store_true", help="check stored data and rebuild the search index")
    doctor.add_argument("--yes", action="store_true", help="repair without asking")


def _conversations(commands: Commands) -> None:
    listing = commands.add_parser("list", help="list conversations, newest first")
    listing.add_argument("--all", action="store_true", help="include delegates")
    listing.add_argument("--workspace", metavar="DIR", help="only conversations in this folder")
    listing.add_argument("--model", metavar="M", help="only conversations with this model")
    listing.add_argument("--state", choices=list(STATES), help="only conversations in this state")
    listing.add_argument("--since", type=_days, metavar="DAYS", help="only conversations updated in the last DAYS days")
    _agents(listing)
    _json_lines(listing)

    search = commands.add_parser("search", help="search messages, actions and output of all conversations")
    search.add_argument("query", metavar="Q", help='words that must all occur, word* for prefixes, "a phrase"')
    search.add_argument("--limit", type=_count, default=50, metavar="N", help="maximum number of matches (default: 50)")
    _agents(search)
    _json_lines(search)

    rename = commands.add_parser("rename", help="rename a conversation")
    rename.add_argument("id", metavar="ID", help="the ID or the beginning of it")
    rename.add_argument("title", metavar="TITLE")

    delete = commands.add_parser("delete", help="permanently delete conversations and their stored data")
    delete.add_argument("ids", metavar="ID", nargs="+", help="the ID or the beginning of it")
    delete.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    delete.add_argument(
        "--without-engine",
        action="store_true",
        help="delete even if the container engine does not respond; containers are removed when it does",
    )

    show = commands.add_parser("show", help="show cost, tokens and time for one conversation or all")
    show.add_argument("id", metavar="ID", nargs="?", help="the conversation (default: all)")
    _agents(show)
    _json(show)


def _export_import(commands: Commands) -> None:
    export = commands.add_parser("export", help="export a conversation to a file")
    export.add_argument("id", metavar="ID")
    _agents(export)
    export.add_argument(
        "--format", choices=FORMATS, default="trajectory", help="format of the export (default: trajectory)"
    )
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="output file (default and -: standard output)"
    )
    secrets = export.add_mutually_exclusive_group()
    secrets.add_argument("--mask", action="store_true", help="redact keys, tokens and the home folder")
    secrets.add_argument("--allow-secrets", action="store_true", help="write possible secrets unredacted")

    importing = commands.add_parser("import", help="import a conversation from a file or an OpenHands folder")
    importing.add_argument(
        "path", metavar="FILE|DIR", help="a trajectory, a folder of event files or a Handloom archive"
    )
    _json(importing)


def _replay(commands: Commands) -> None:
    replay = commands.add_parser("replay", help="replay a saved conversation without running anything")
    replay.add_argument("what", metavar="ID|FILE", help="the ID of a conversation or an exported file")
    _agents(replay)
    replay.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X", help="playback speed from 0.25 to 64 (default: 1)"
    )

    again = commands.add_parser(
        "rerun",
        aliases=["again"],
        help="run the actions of a saved conversation again without a model and compare the results",
    )
    again.add_argument("id", metavar="ID", help="the conversation")
    again.add_argument(
        "--workspace",
        metavar="DIR",
        help="folder to run in (default: a copy of the original workspace, or an empty folder)",
    )
    again.add_argument("--runtime", choices=["local", "docker", "remote"], help="where actions run")
    again.add_argument(
        "--confirm",
        choices=["never", "risky", "always"],
        default="never",
        help="which actions need confirmation (default: never)",
    )
    again.add_argument("--stop-at-first", action="store_true", help="stop at the first difference")
    again.add_argument("--json", action="store_true", help="print one JSON object per action and a summary")


def _agents(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    which.add_argument("--all-agents", action="store_true", help="include the sessions of other agents on this machine")
    which.add_argument(
        "--from",
        dest="agents_named",
        metavar="AGENTS",
        help=f"only sessions of these agents, separated by commas: handloom, {', '.join(AGENTS)}",
    )


def _count(text: str) -> int:
    """A number of at least 1. Raises ValueError, which argparse reports."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _port(text: str) -> int:
    """A port; 0 is any free one. Raises ValueError."""
    if not 0 <= (port := int(text)) <= 65_535:
        raise ValueError
    return port


def _days(text: str) -> float:
    """A number of days. Raises ValueError."""
    if not 0 <= (days := float(text)) <= MAX_DAYS:
        raise ValueError
    return days


def _speed(text: str) -> float:
    """A speed of a replay; the nearest available one is used."""
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.25 <= speed <= 64:
        raise argparse.ArgumentTypeError(f"{text!a} is not a speed; pass a number from 0.25 to 64")
    return speed


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model",
        metavar="M",
        help="model: PROVIDER/NAME, a name from config.toml, scripted:FILE, cassette:FILE or demo",
    )
    _runtime(command)
    command.add_argument("--agent", metavar="NAME", help="agent for a new conversation (see: handloom agents)")
    _instructions(command)
    command.add_argument(
        "--workspace", metavar="DIR", default=".", help="folder in which the agent works (default: the current folder)"
    )
    command.add_argument(
        "--repo", metavar="URL[#BRANCH]", help="repository to clone into that folder first, or OWNER/NAME"
    )


def _runtime(command: argparse.ArgumentParser) -> None:
    command.add_argument("--runtime", choices=["local", "docker", "remote"], help="where actions run (default: local)")


def _instructions(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--instructions", metavar="TEXT", help="instructions for each new conversation, from its first message on"
    )


def _run(commands: Commands) -> None:
    run = commands.add_parser("run", help="run one task without the full-screen workspace")
    run.add_argument("task", metavar="TASK", help="the task; - reads it from standard input")
    _common(run)
    form = run.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print each stored event as one line of JSON")
    form.add_argument("--quiet", action="store_true", help="print the final answer and errors only")
    form.add_argument("--verbose", action="store_true", help="also print the output of commands, on standard error")
    earlier = run.add_mutually_exclusive_group()
    earlier.add_argument("--resume", metavar="ID", help="continue this conversation")
    earlier.add_argument(
        "--last", action="store_const", const=LAST, dest="resume", help="continue the conversation used last"
    )
    _trust_option(run)
    run.add_argument("--title", default="", help="title of the conversation")
    run.add_argument("--max-iterations", type=int, metavar="N", help="stop after this many model calls")
    run.add_argument(
        "--max-budget", type=float, metavar="USD", help="stop when the cost reaches this amount in US dollars"
    )
    run.add_argument(
        "--approve-plan", action="store_true", help="carry out the plan of the Planner agent without asking"
    )
    run.add_argument(
        "--record", metavar="FILE", help="record the model's responses for replay with --model cassette:FILE"
    )
    run.add_argument(
        "--confirm",
        choices=MODES,
        default="never",
        help=(
            "which actions need confirmation (never: only actions that untrusted content "
            "may have caused). Without a terminal they are denied"
        ),
    )
    run.add_argument("--yes", action="store_true", help="confirm all actions; actions that a rule denies stay denied")


def _batch(commands: Commands) -> None:
    batch = commands.add_parser("batch", help="run a list of tasks, several at a time; run again, it goes on")
    batch.add_argument(
        "tasks", type=Path, metavar="TASKS", help="a .jsonl or .csv file, or a folder of .md files; or: attach DIR"
    )
    batch.add_argument("attached", type=Path, nargs="?", metavar="DIR", help="the batch to watch, after attach")
    batch.add_argument("--out", type=Path, metavar="DIR", help="folder for the ledger and the results")
    batch.add_argument(
        "--engine",
        default="local",
        metavar="WHERE",
        help="where attempts run: local (default), ray (the cluster of this machine) or ray://HOST:PORT",
    )
    batch.add_argument("--workers", type=int, default=4, metavar="N", help="tasks at the same time (default: 4)")
    batch.add_argument("--attempts", type=int, default=2, metavar="N", help="attempts for each task (default: 2)")
    batch.add_argument("--budget", type=float, metavar="USD", help="what all model calls may cost together")
    batch.add_argument("--model", metavar="M", help="model of tasks that name none")
    batch.add_argument("--agent", metavar="NAME", help="agent of tasks that name none")
    _runtime(batch)
    batch.add_argument(
        "--confirm", choices=MODES, default="never", help="which actions need confirmation; they are denied"
    )
    batch.add_argument("--yes", action="store_true", help="confirm all actions; actions that a rule denies stay denied")
    _trust_option(batch)
    batch.add_argument(
        "--retry-failed",
        nargs="?",
        const="",
        choices=["", "failed", "limit", "stuck", "error"],
        metavar="HOW",
        help="run failed tasks again: all, or those that ended so (failed, limit, stuck, error)",
    )
    batch.add_argument("--amend", action="store_true", help="use a list of tasks that has changed meanwhile")
    batch.add_argument("--json", action="store_true", help="print one JSON object for each attempt that begins or ends")
    batch.add_argument("--plain", action="store_true", help="print lines instead of showing the screen")
    batch.add_argument("--detach", action="store_true", help="start the batch in the background, and return")
    batch.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)


def _trust_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--trust", action="store_true", help="trust the instructions, hooks and servers in the folder")


def _mode(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--confirm",
        choices=MODES,
        help="which actions need confirmation, in conversations whose mode you do not change (default: the settings)",
    )


def _resume(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--resume", nargs="?", const="", metavar="ID", help="resume a conversation (default: the last one)"
    )


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _json_lines(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object per line")
