"""`handloom agents`: which agents there are, what is wrong with others, and the consent to a project's.

A project's agent is a text by others that would direct a model here, so it is shown in full before it may work, and
again when it has changed. All of it is foreign and shown clean.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from core.agent.registry import AgentKind, Agents
from core.environment import home_folder
from core.errors import ConfigurationError, ExitStatus
from tui.cli.output import can_ask, is_confirmed, notice, say
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line

WIDTH = 400
"""Characters of a line: what comes from files is bounded."""


def agents(options: argparse.Namespace) -> int:
    """List the agents, or let one of the project's work. Raises ConfigurationError."""
    known, workspace = Agents(home_folder(os.environ)), str(Path(options.workspace).expanduser().absolute())
    found = known.all(workspace)
    if options.allow:
        kind = found.kinds.get(options.allow)
        if kind is None:
            raise ConfigurationError(f"There is no agent {options.allow!r}. List the agents with: handloom agents")
        return _allow(known, kind)
    for kind in found.kinds.values():
        say(json.dumps(agent_to_dict(kind)) if options.json else sanitize_line(_line(kind), WIDTH))
    for problem in found.problems:
        notice(sanitize_line(problem, WIDTH))
    return ExitStatus.FINISHED


def agent_to_dict(kind: AgentKind) -> dict[str, str | bool | None]:
    """An agent as `--json` tells of it."""
    return {
        "name": kind.name,
        "description": kind.description,
        "origin": kind.origin,
        "model": kind.model or None,
        "path": str(kind.file.path) if kind.file is not None else None,
        "allowed": kind.allowed,
    }


def _line(kind: AgentKind) -> str:
    unread = "" if kind.allowed else _(", not allowed yet")
    return f"{kind.name}  {kind.description}  ({kind.origin}{unread})"


def _allow(known: Agents, kind: AgentKind) -> int:
    if kind.allowed or kind.file is None:
        notice(sanitize_line(_("{name} is already allowed.").format(name=kind.name), WIDTH))
        return ExitStatus.FINISHED
    say(sanitize_line(str(kind.file.path), WIDTH))
    say(sanitize(kind.file.text))
    if not can_ask():
        raise ConfigurationError("This command asks for confirmation. Run it in a terminal.")
    if not is_confirmed(_("Allow this agent in this project?")):
        notice(_("The agent was not allowed."))
        return ExitStatus.INTERRUPTED
    known.allow(kind)
    notice(_("Allowed until its file changes."))
    return ExitStatus.FINISHED
