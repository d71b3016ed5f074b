"""The command line: what can be typed after `handloom`, and nothing about what it does."""

from __future__ import annotations

import argparse
from pathlib import Path


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
    run.add_argument("--title", default="", help="what the lists call it")
    run.add_argument("--max-iterations", type=int, metavar="N", help="answers of the model before it stops")
    run.add_argument("--max-budget", type=float, metavar="USD", help="dollars that it may cost before it stops")
    run.add_argument(
        "--confirm", choices=["never", "risky", "always"], default="never", help="which actions ask first (never)"
    )

    listing = commands.add_parser("list", help="the conversations of this home, the newest first")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")

    show = commands.add_parser("show", help="what a conversation, or all of them together, took: answers, cost, time")
    show.add_argument("id", metavar="ID", nargs="?", help="which one; without it, all conversations of this home")
    show.add_argument("--json", action="store_true", help="one JSON object")

    export = commands.add_parser("export", help="a conversation as a file that others can read")
    export.add_argument("id", metavar="ID")
    export.add_argument("--format", choices=["trajectory"], default="trajectory", help="the form of OpenHands V0")
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to; otherwise standard output")
    return top


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="M", help="PROVIDER/NAME, scripted:FILE or demo")
    command.add_argument("--runtime", choices=["local"], help="where actions are carried out (local)")
    command.add_argument("--workspace", metavar="DIR", default=".", help="the folder in which the agent works")
    command.add_argument("--repo", metavar="URL[#BRANCH]", help="a repository to clone into that folder first")
