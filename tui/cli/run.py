"""`handloom run`: runs a task without the full screen. Standard output has the final answer, and nothing else.

Progress, notices and the log go to standard error. All foreign text is sanitised; JSON escapes it anyway.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from core.acp import ACP_AGENT
from core.conversations.conversation_manager import ConversationManager
from core.environment import home_folder
from core.errors import ConfigurationError, ExitStatus, HandloomError, UsageError
from core.events import (
    Action,
    AgentFinishAction,
    AgentThinkAction,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    IPythonRunCellObservation,
    MessageAction,
    Observation,
    SecretMaskedObservation,
    SystemMessageAction,
    envelope_to_dict,
    to_json,
)
from core.events.actions import said_and_thought
from core.headless import compact_argument, run_task
from core.library.conversation_ids import own_id
from core.security.confirmation import TAINT
from core.settings.config import load
from tui.cli.command_line import KEEPS_AGENT, KEEPS_INSTRUCTIONS, LONG_INSTRUCTIONS, MAX_INSTRUCTIONS_CHARS
from tui.cli.output import YES, answer_to, can_ask, notice, say
from tui.runtime_factory import RuntimeFactory
from tui.terminal_io.sanitizer import sanitize

if TYPE_CHECKING:
    from pathlib import Path

    from core.session.agent_session import AgentSession
    from core.settings.config import Settings

NO_USER = (
    "No user is available to confirm actions, so this one was not carried out "
    "(asked by: {rule}). {reasons}Find another way, or finish with what is done."
)
DENIED = "Denied, because no terminal is available to ask: {action}{asked_by}"
HOW_TO_ALLOW = {
    TAINT: (
        "Actions that untrusted content may have caused need confirmation. To allow "
        "them in advance, name the host in the task, add a rule to policy.toml such as "
        'allow = ["bash(git push origin *)"], or trust the content with allow = '
        '["foreign(https://docs.example/*)"]. --yes confirms everything.'
    ),
    "": "To allow it in advance, add a rule to policy.toml. --yes confirms everything.",
}
"""How to allow an action in advance, by the rule that asked."""
QUESTION = (
    "Type yes and press Enter to allow it. Enter alone denies it and stops the "
    "agent. Any other text denies it and is sent to the agent: "
)


def interrupts() -> asyncio.Event:
    """An event that is set by SIGINT and SIGTERM, which no longer end the process."""
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    return interrupted


def command_manager(home: Path, settings: Settings) -> ConversationManager:
    """A manager for one command, without spare sandboxes."""
    runtimes = RuntimeFactory(home, lambda: settings, os.environ, spares=False)
    return ConversationManager(
        home,
        settings,
        make_runtime=runtimes,
        make_checkpoints=runtimes.checkpoints,
        forget=runtimes.forget,
        around=runtimes,
        before_server=runtimes.before_server,
        environ=os.environ,
    )


def warn_if_open(session: AgentSession) -> None:
    """Say that a conversation has no sandbox."""
    if session.runtime.isolation == "none":
        why = f": {session.runtime.why_open}" if session.runtime.why_open else ""
        _notice_once(f"No sandbox: commands run directly on this machine with your permissions{why}.")


async def run(options: argparse.Namespace) -> int:
    """Run one task and return the exit status. Raises HandloomError only before the work begins."""
    task = sys.stdin.read() if options.task == "-" else options.task
    if not task.strip():
        raise UsageError("The task is empty. Describe what to do, or pass - to read the task from standard input.")
    if compact_argument(task) is not None and not options.resume:
        raise UsageError("/compact needs an existing conversation: handloom run --resume ID /compact")
    if options.resume and options.repo:
        raise UsageError("--resume and --repo cannot be combined: a conversation keeps its repository.")
    if options.resume and options.instructions:
        raise UsageError(KEEPS_INSTRUCTIONS)
    if len(options.instructions or "") > MAX_INSTRUCTIONS_CHARS:
        raise UsageError(LONG_INSTRUCTIONS)
    if options.resume and options.agent:
        raise UsageError(KEEPS_AGENT)
    home = home_folder(os.environ)
    settings = load(
        home,
        os.environ,
        model=options.model,
        runtime=options.runtime,
        agent__name=options.agent,
        agent__instructions=options.instructions,
        agent__max_iterations=options.max_iterations,
        agent__max_budget=options.max_budget,
        agent__confirm=options.confirm,
        llm__record=options.record,
        trust__projects="always" if options.trust else None,
    )
    if not settings.model and not options.resume and settings.agent.name != ACP_AGENT:
        raise ConfigurationError(
            "No model is configured. Pass --model (PROVIDER/NAME, scripted:FILE or demo) or set HANDLOOM_MODEL."
        )
    interrupted = interrupts()
    async with command_manager(home, settings) as manager:
        if options.resume:
            session = await manager.open(await own_id(manager.store, options.resume), model=options.model or "")
        else:
            session = await manager.create(
                workspace=options.workspace,
                model=options.model or "",
                title=options.title,
                repository=options.repo or "",
            )
        session.approval.set_mode(settings.agent.confirm)  # the option is for this task only
        if not options.quiet:
            notice(f"conversation {session.info.id}")
        warn_if_open(session)
        output = _TextOutput(is_quiet=options.quiet, is_verbose=options.verbose)
        printer = _Printer(session, _print_json if options.json else output.print)
        try:
            status = await run_task(
                session,
                task,
                on_event=printer.take,
                on_notice=output.notice,
                on_progress=output.progress,
                ask=agree if options.yes else ask,
                interrupted=interrupted,
                approves=options.approve_plan,
            )
            output.end()
        except HandloomError as error:  # the work has begun
            notice(f"handloom: {error}")
            return ExitStatus.ERROR
        except BrokenPipeError:
            raise
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter tries again at its end
            kept = f"It is kept: handloom export {session.info.id}"
            notice(f"handloom: The answer cannot be written: {error.strerror}. {kept}")
            return ExitStatus.ERROR
        return status


class _Printer:
    """Prints all events since the conversation was opened, in order, including those before it subscribed."""

    def __init__(self, session: AgentSession, print_event: Callable[[Envelope], None]) -> None:
        self._session = session
        self._printed = session.opened_after
        self._print = print_event

    async def take(self, envelope: Envelope) -> None:
        """Print up to this event. Raises OSError if the output is closed or full."""
        if envelope.id > self._printed + 1:
            for earlier in await self._session.stream.read(after=self._printed, before=envelope.id):
                self._print(earlier)
        self._print(envelope)
        self._printed = envelope.id


def _print_json(envelope: Envelope) -> None:
    say(to_json(envelope_to_dict(envelope)))


class _TextOutput:
    """Prints the final answer on standard output, and how it came about on standard error."""

    def __init__(self, *, is_quiet: bool = False, is_verbose: bool = False) -> None:
        """A quiet output has errors only, a verbose one also what commands print."""
        self._is_quiet, self._is_verbose = is_quiet, is_verbose
        self._answer = ""
        """The last text of the agent, which is the final answer unless something follows."""
        self._noticed = ""

    def notice(self, text: str) -> None:
        """Print a problem on standard error, once if it is reported again at the end."""
        if text != self._noticed:
            notice(text)
        self._noticed = text

    def print(self, envelope: Envelope) -> None:
        """Print an event. Raises OSError if standard error cannot be written."""
        event = envelope.event
        self._print_event(envelope)
        if isinstance(event, Observation) and not (self._is_verbose and event.success is False):  # it has them below
            for refusal in event.refusals:
                notice(refusal.text)

    def _print_event(self, envelope: Envelope) -> None:
        match envelope.event:
            case SystemMessageAction() | CmdRunAction(hidden=True) | CmdOutputObservation(hidden=True):
                return
            case MessageAction(content=text) if envelope.source is EventSource.AGENT:
                self._hold(text)
            case AgentFinishAction(final_thought=text) as finish if text or finish.thought_text:
                self._print_thought(finish.thought_text)
                self._hold(text or finish.thought_text)
            case AgentThinkAction() as think:
                self._print_thought(said_and_thought(think)[0])
            case Action() as action if action.runnable:
                self._hold("")
                self._print_thought(action.thought_text)
                self.progress(f"> {action.message}")
            case CmdOutputObservation(content=text, metadata=metadata) if self._is_verbose:
                self.progress(text if metadata.exit_code == 0 else f"{text}{metadata.suffix}")
            case IPythonRunCellObservation(content=text) if self._is_verbose:
                self.progress(text)
            case CmdOutputObservation(metadata=metadata) if metadata.exit_code > 0:
                self.progress(f"  exit code {metadata.exit_code}")
            case IPythonRunCellObservation(success=False):
                self.progress("  the cell failed")
            case ErrorObservation() | SecretMaskedObservation() as problem:
                self._print_thought(problem.thought_text)
                self.notice(problem.content)

    def end(self) -> None:
        """Print the final answer. Raises OSError if standard output is closed or full."""
        if self._answer:
            say(sanitize(self._answer))
            self._answer = ""

    def _print_thought(self, text: str) -> None:
        """Print what the agent said with a call, after what it said before."""
        if text:
            self._hold("")
            self.progress(text)

    def _hold(self, text: str) -> None:
        """Take a text as the answer; the one before was not the last."""
        if self._answer != text:
            self.progress(self._answer)
        self._answer = text

    def progress(self, text: str) -> None:
        """Print how the work goes on, unless the output is quiet."""
        if text and not self._is_quiet:
            notice(text)


async def agree(envelope: Envelope) -> str | None:
    """Confirm every action, as `--yes` says."""
    notice(f"Confirmed: {envelope.event.message}{_reason_of(envelope)}")
    return None


def _reason_of(envelope: Envelope) -> str:
    judged = envelope.event.judgement if isinstance(envelope.event, Action) else None
    return f"\nReason: {judged.rule}. {' '.join(judged.reasons)}".rstrip() if judged is not None else ""


async def ask(envelope: Envelope) -> str | None:
    """Ask on the terminal; without one, the action is denied."""
    if not can_ask():
        return _denied_without_user(envelope)
    notice(f"The agent wants: {envelope.event.message}{_reason_of(envelope)}")
    answer = await answer_to(QUESTION)
    return None if answer.lower() == YES else answer


def _denied_without_user(envelope: Envelope) -> str:
    """Print what was denied and how to allow it; return the message for the agent."""
    judged = envelope.event.judgement if isinstance(envelope.event, Action) else None
    notice(DENIED.format(action=envelope.event.message, asked_by=_reason_of(envelope)))
    _notice_once(HOW_TO_ALLOW.get(judged.rule if judged is not None else "", HOW_TO_ALLOW[""]))
    if judged is None:
        return NO_USER.format(rule="the settings", reasons="")
    return NO_USER.format(rule=judged.rule, reasons="".join(f"{reason} " for reason in judged.reasons))


@cache
def _notice_once(text: str) -> None:
    notice(text)
