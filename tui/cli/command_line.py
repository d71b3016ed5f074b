"""The command line: what can be typed after `handloom`, and nothing about what it does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

FORMATS = ("trajectory", "archive", "html", "markdown", "openhands-events", "asciicast")
"""What can be written; `core.import_export.formats` has them, and a test holds that these are they."""
STATES = ("waits", "finished", "error", "stopped", "running")
"""The states by which conversations are listed; `tui.sessions.filter_chips` knows what they mean, and a test that it
does."""
MAX_DAYS = 36_500
"""A century: dates have a beginning."""
KEEPS_AGENT = "A conversation keeps its agent. Give either --resume or --agent."

Commands = Any
"""What argparse makes of `add_subparsers`; it has no public name."""


def parser() -> argparse.ArgumentParser:
    """The parser of every command. Wrong usage ends with exit status 2 and a line that says what is wrong."""
    top = argparse.ArgumentParser(
        prog="handloom",
        description="A full-screen, keyboard-driven terminal workspace in which people work with software agents.",
    )
    top.add_argument("--version", action="store_true", help="print the version and end")
    _common(top)
    top.add_argument(
        "--resume", nargs="?", const="", metavar="ID", help="open a conversation again; without ID, the last one"
    )
    top.add_argument("--screen-reader", action="store_true", help="plain lines instead of the workspace")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    commands.add_parser("demo", help="the workspace with a scripted model in a scratch folder; no key, no network")

    run = commands.add_parser("run", help="one task without the screen")
    run.add_argument("task", metavar="TASK", help="what to do; - reads it from standard input")
    _common(run)
    run.add_argument("--json", action="store_true", help="print each event as a line of JSON, after it is durable")
    run.add_argument("--resume", metavar="ID", help="go on with this conversation")
    run.add_argument("--trust", action="store_true", help="say yes to all that the folder brings for agents, as it is")
    run.add_argument("--title", default="", help="what the lists call it")
    run.add_argument("--instructions", default="", metavar="TEXT", help="what holds for all of the conversation")
    run.add_argument("--max-iterations", type=int, metavar="N", help="answers of the model before it stops")
    run.add_argument("--max-budget", type=float, metavar="USD", help="dollars that it may cost before it stops")
    run.add_argument("--approve-plan", action="store_true", help="carry out the plan of the agent Planner as it stands")
    run.add_argument("--record", metavar="FILE", help="record the model's answers, to be played as cassette:FILE")
    run.add_argument(
        "--confirm",
        choices=["never", "risky", "always", "auto-edit", "plan"],
        default="never",
        help="which actions ask first (never: only what foreign content could want); where nobody sits at a terminal, "
        "what asks is denied",
    )
    run.add_argument("--yes", action="store_true", help="answer yes to what asks; what a rule denies stays denied")

    acp = commands.add_parser("acp", help="serve an editor that speaks the Agent Client Protocol; the editor starts it")
    acp.add_argument("--model", metavar="M", help="PROVIDER/NAME, scripted:FILE or demo")
    acp.add_argument("--runtime", choices=["local", "docker", "remote"], help="where actions are carried out (local)")
    acp.add_argument("--trust", action="store_true", help="say yes to all that a folder brings for agents, as it is")
    agents = commands.add_parser("agents", help="the agents that can be chosen, and what is wrong with others")
    agents.add_argument("--workspace", metavar="DIR", default=".", help="those of this project, too")
    agents.add_argument("--allow", metavar="NAME", help="show an agent of the project in full, and let it work")
    agents.add_argument("--json", action="store_true", help="one JSON object a line")

    serve = commands.add_parser("serve", help="the workspace in a web browser on this machine; prints its address")
    serve.add_argument("--port", type=_port, default=0, metavar="N", help="which port of loopback (any that is free)")
    serve.add_argument(
        "--token-file", metavar="FILE", help="keep the token in this file of your own, so that open pages come back"
    )
    _common(serve)
    serve.add_argument("--resume", nargs="?", const="", metavar="ID", help="as without `serve`")

    _remembered(commands)
    _secrets(commands)
    _of_trust(commands)
    _found_again(commands)
    _taken_elsewhere(commands)
    _played_again(commands)

    _permitted(commands)
    keys = commands.add_parser("keys", help="every command with its keys; what is wrong with those of your own")
    keys.add_argument("--test", action="store_true", help="show what each key sends, and which command it gives")
    _looked_after(commands)

    image = commands.add_parser("image", help="the image that Docker sandboxes are made from")
    building = image.add_subparsers(dest="step", metavar="STEP", required=True).add_parser(
        "build", help="make it, unless it is there; prints its name"
    )
    building.add_argument("--base", metavar="IMAGE", help="a Debian-like image to build on")
    building.add_argument("--force", action="store_true", help="repeat every step")
    return top


def _remembered(commands: Commands) -> None:
    """The facts that agents are told of."""
    steps = commands.add_parser("memory", help="what agents are told of at the start: list it, add to it, forget it")
    steps = steps.add_subparsers(dest="step", metavar="STEP", required=True)
    listing = steps.add_parser("list", help="what is remembered, with its numbers")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    adding = steps.add_parser("add", help="remember a fact in this project")
    adding.add_argument("text", metavar="TEXT")
    adding.add_argument("--workspace", metavar="DIR", default=".", help="in this project instead")
    adding.add_argument("--everywhere", action="store_true", help="in every project")
    forgetting = steps.add_parser("forget", help="forget a fact")
    forgetting.add_argument("number", metavar="NUMBER", type=_count, help="its number in the list")


def _secrets(commands: Commands) -> None:
    top = commands.add_parser("secrets", help="what commands of agents may use and agents do not see")
    steps = top.add_subparsers(dest="step", metavar="STEP", required=True)
    put = steps.add_parser("set", help="keep a secret; its value is typed unseen, and stands in no argument")
    put.add_argument("name", metavar="NAME", help="as commands name it: $NAME")
    source = put.add_mutually_exclusive_group()
    source.add_argument("--from-env", metavar="VARIABLE", help="take the value of this variable")
    source.add_argument("--stdin", action="store_true", help="take all of standard input")
    put.add_argument("--file", action="store_true", help="keep it in a 0600 file, even where there is a keyring")
    put.add_argument("--description", metavar="TEXT", help="what it is for; agents are told this and the name")
    steps.add_parser("list", help="names and what they are for").add_argument(
        "--json", action="store_true", help="one JSON object a line"
    )
    gone = steps.add_parser("remove", help="forget a secret")
    gone.add_argument("name", metavar="NAME")
    for command in (put, gone):
        scope = command.add_mutually_exclusive_group()
        scope.add_argument("--folder", metavar="DIR", help="for work in this folder alone")
        scope.add_argument("--conversation", metavar="ID", help="for this conversation alone")
    steps.add_parser("adopt", help="move keys out of config.toml")
    shown = steps.add_parser("allow", help="show a kind of what looks like a secret, in place of masking it")
    shown.add_argument("kind", metavar="KIND", help="as the notice says it, such as 'a JSON web token'")


def _of_trust(commands: Commands) -> None:
    """What projects bring for agents, and the yes to it."""
    steps = commands.add_parser("trust", help="the folders whose instructions, skills, hooks and the like count")
    steps = steps.add_subparsers(dest="step", metavar="STEP", required=True)
    steps.add_parser("list", help="the trusted folders, and of how many files each").add_argument(
        "--json", action="store_true", help="one JSON object a line"
    )
    give = steps.add_parser("give", help="show all that a folder brings, and say yes to it")
    give.add_argument("folder", metavar="DIR", nargs="?", default=".")
    give.add_argument("--yes", action="store_true", help="without a question")
    revoke = steps.add_parser("revoke", help="take a yes back")
    revoke.add_argument("folder", metavar="DIR", nargs="?", default=".")


def _permitted(commands: Commands) -> None:
    """What was allowed or denied for good."""
    permissions = commands.add_parser("permissions", help="what you have allowed or denied for good")
    steps = permissions.add_subparsers(dest="step", metavar="STEP", required=True)
    listing = steps.add_parser("list", help="all of them")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    revoke = steps.add_parser("revoke", help="take some back")
    revoke.add_argument("ids", metavar="ID", nargs="+", help="which, by its first word in the list")
    check = steps.add_parser(
        "check",
        help="show what would be said of commands, without running them",
        description="Commands are judged as one shell would run them, one after the other."
        " Exit status: 0 all are allowed, 3 one asks, 4 one is denied, 2 the request is wrong."
        " With --json -, each line of standard input is an object with commands, mode and rules,"
        " each answer is a line, and the exit status is 0.",
    )
    check.add_argument("commands", metavar="CMD", nargs="+", help="a command; - with --json reads standard input")
    check.add_argument("--mode", default="risky", metavar="M", help="always, risky, auto-edit, plan or never")
    check.add_argument("--json", action="store_true", help="one JSON object")


def _looked_after(commands: Commands) -> None:
    """What is there, and whether it is whole."""
    doctor = commands.add_parser("doctor", help="what Handloom needs of this machine, and what to do where it lacks")
    doctor.add_argument("--json", action="store_true", help="one JSON object")
    doctor.add_argument("--mend", action="store_true", help="look through all that is kept, and mend what is damaged")
    doctor.add_argument("--index", action="store_true", help="the same, and make the index for search anew")
    doctor.add_argument("--yes", action="store_true", help="mend without a question")


def _found_again(commands: Commands) -> None:
    """Lists, search, and what is done with a saved conversation as a whole."""
    listing = commands.add_parser("list", help="the conversations of this home, the newest first")
    listing.add_argument("--all", action="store_true", help="delegates, too")
    listing.add_argument("--workspace", metavar="DIR", help="only those of this folder")
    listing.add_argument("--model", metavar="M", help="only those of this model")
    listing.add_argument("--state", choices=list(STATES), help="only those that were left in this state")
    listing.add_argument("--since", type=_days, metavar="DAYS", help="only those that changed in the last days")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")

    search = commands.add_parser("search", help="what was said, done or printed in any conversation")
    search.add_argument("query", metavar="Q", help='words that all occur, word*, "a phrase"')
    search.add_argument("--limit", type=_count, default=50, metavar="N", help="hits at most (50)")
    search.add_argument("--json", action="store_true", help="one JSON object a line")

    rename = commands.add_parser("rename", help="give a conversation another name")
    rename.add_argument("id", metavar="ID", help="the id, or its beginning")
    rename.add_argument("title", metavar="TITLE")

    delete = commands.add_parser("delete", help="remove conversations for good, with all that is kept of them")
    delete.add_argument("ids", metavar="ID", nargs="+", help="the id, or its beginning")
    delete.add_argument("--yes", action="store_true", help="without a question")
    delete.add_argument(
        "--without-engine",
        action="store_true",
        help="also while the container engine does not answer; a container of theirs is removed once it does",
    )

    show = commands.add_parser("show", help="what a conversation, or all of them together, took: answers, cost, time")
    show.add_argument("id", metavar="ID", nargs="?", help="which one; without it, all conversations of this home")
    show.add_argument("--json", action="store_true", help="one JSON object")


def _taken_elsewhere(commands: Commands) -> None:
    """Export and import."""
    export = commands.add_parser("export", help="a conversation as a file that others can read")
    export.add_argument("id", metavar="ID")
    export.add_argument("--format", choices=FORMATS, default="trajectory", help="what to write")
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where to; otherwise, and for -, standard output"
    )
    secrets = export.add_mutually_exclusive_group()
    secrets.add_argument("--mask", action="store_true", help="write keys, tokens and the home folder masked")
    secrets.add_argument("--allow-secrets", action="store_true", help="write what looks like a secret as it is")

    importing = commands.add_parser("import", help="a conversation from elsewhere: a file or a folder of OpenHands")
    importing.add_argument("path", metavar="FILE|DIR", help="a trajectory, a folder of event files, an archive of ours")
    importing.add_argument("--json", action="store_true", help="one JSON object")


def _played_again(commands: Commands) -> None:
    """Replay, and the same actions once more."""
    replay = commands.add_parser("replay", help="a saved conversation as it was; carries out nothing")
    replay.add_argument("what", metavar="ID|FILE", help="a conversation of this home, or a file that was exported")
    replay.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="0.25 to 64 times as fast as it was (1)")

    again = commands.add_parser(
        "again", help="run a saved session's actions again, without a model, and compare what comes of them"
    )
    again.add_argument("id", metavar="ID", help="which conversation")
    again.add_argument(
        "--workspace", metavar="DIR", help="where to run (a copy of the workspace as it was, or an empty folder)"
    )
    again.add_argument("--runtime", choices=["local", "docker", "remote"], help="where actions are carried out")
    again.add_argument(
        "--confirm", choices=["never", "risky", "always"], default="never", help="which actions ask first (never)"
    )
    again.add_argument("--stop-at-first", action="store_true", help="stop at the first difference")
    again.add_argument("--json", action="store_true", help="one JSON object for each action, and a summary")


def _count(text: str) -> int:
    """A number of at least 1. Raises ValueError, which argparse tells."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _port(text: str) -> int:
    """A port; 0 is any that is free. Raises ValueError, which argparse tells."""
    if not 0 <= (port := int(text)) <= 65_535:
        raise ValueError
    return port


def _days(text: str) -> float:
    """A number of days. Raises ValueError, which argparse tells."""
    if not 0 <= (days := float(text)) <= MAX_DAYS:
        raise ValueError
    return days


def _speed(text: str) -> float:
    """A speed of a replay; the nearest one that there is will be taken."""
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.25 <= speed <= 64:
        raise argparse.ArgumentTypeError(f"{text!a} is no speed; give a number from 0.25 to 64")
    return speed


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model", metavar="M", help="PROVIDER/NAME, one of config.toml, scripted:FILE, cassette:FILE or demo"
    )
    command.add_argument(
        "--runtime", choices=["local", "docker", "remote"], help="where actions are carried out (local)"
    )
    command.add_argument("--agent", metavar="NAME", help="who works on a new conversation; see: handloom agents")
    command.add_argument("--workspace", metavar="DIR", default=".", help="the folder in which the agent works")
    command.add_argument("--repo", metavar="URL[#BRANCH]", help="a repository to clone into that folder first")
