"""Commands in an editor: `/continue`, `/compact`, and the prompts that the user keeps in Handloom's home."""

from __future__ import annotations

import asyncio
from pathlib import Path

from acp.schema import AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, UnstructuredCommandInput

from core.controller.exit_reasons import HaltOption
from core.memory.compaction import COMPACT, compact_argument
from core.memory.library import Gathered
from core.session.agent_session import AgentSession
from core.trust.folder_survey import Kind
from tui.i18n import _
from tui.prompt import slash_commands
from tui.terminal_io.sanitizer import sanitize_line

Home = Path
CONTINUE = "continue"
OURS = (CONTINUE, COMPACT)
DESCRIPTION_CELLS = 200


async def available(home: Home, gathered: Gathered) -> AvailableCommandsUpdate:
    """The commands that there are: the user's, those of a trusted project, tasks and skills."""
    own, _problems = await asyncio.to_thread(slash_commands.load, home, texts(gathered))
    told = _("Go on after a stop, an error or a limit; a limit is extended by the same amount again.")
    keeps = AvailableCommandInput(root=UnstructuredCommandInput(hint=_("what to keep")))
    sums = _("Compact the conversation. Optionally say what to keep.")
    found = [
        AvailableCommand(name=CONTINUE, description=told),
        AvailableCommand(name=COMPACT, description=sums, input=keeps),
    ]
    for name, command in own.items():
        if name in OURS:
            continue
        hint = sanitize_line(command.hint, DESCRIPTION_CELLS)
        found.append(
            AvailableCommand(
                name=name,
                description=sanitize_line(command.description, DESCRIPTION_CELLS) or name,
                input=AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)) if hint else None,
            )
        )
    for name, about in called(gathered).items():
        if name not in own and name not in OURS:
            found.append(AvailableCommand(name=name, description=sanitize_line(about, DESCRIPTION_CELLS) or name))
    return AvailableCommandsUpdate(session_update="available_commands_update", available_commands=found)


def texts(gathered: Gathered) -> dict[str, str]:
    """The commands of a trusted project, by their paths."""
    return {piece.path: piece.text for piece in gathered.standing.of(Kind.COMMAND)}


def called(gathered: Gathered) -> dict[str, str]:
    """What is recalled when it is called by a slash, with what it is for."""
    library = gathered.library
    return {one.name: one.description for one in library.skills} | {
        one.name: one.description for one in library.tasks()
    }


async def carried_out(text: str, session: AgentSession) -> bool:
    """Carry out one of our commands; False if it is a message. Raises as `Recovery.take` and `AgentSession.compact`."""
    if (keep := compact_argument(text)) is not None:
        await session.compact(keep)
        return True
    line = slash_commands.parse(text.strip())
    if line is None or line.name != CONTINUE or line.words:
        return False
    halt = session.state.halt
    options = [option for option in halt.options if option is not HaltOption.SWITCH_MODEL] if halt is not None else []
    if options and options[0] is not HaltOption.STOP:
        await session.recover(options[0])
    else:
        await session.resume()
    return True


async def expanded(text: str, home: Home, gathered: Gathered | None) -> str:
    """The message that a command of the user's own or the project's stands for; any other text as it is."""
    line = slash_commands.parse(text.strip())
    if line is None:
        return text.removeprefix("/") if text.startswith("//") else text
    project = texts(gathered) if gathered is not None else {}
    own, _problems = await asyncio.to_thread(slash_commands.load, home, project)
    command = own.get(line.name)
    return command.message(line.words) if command is not None else text
