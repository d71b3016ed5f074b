"""`handloom rerun`: runs a saved conversation again; the exit status says whether the results are the same.

Standard output has one line for each action (with --json, one object), then the summary; notices go to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from core.environment import home_folder
from core.errors import ExitStatus
from core.library.conversation_ids import own_id
from core.rerun import runner
from core.rerun.alignment import Pair, Pairing
from core.rerun.comparison import Comparison, Outcome
from core.rerun.runner import Rerun
from core.settings.config import load
from tui.cli.output import notice, say
from tui.cli.run import ask, command_manager, interrupts
from tui.i18n import _
from tui.rerun.comparison_sheet import MARKS, WORDS, rule_words, summary
from tui.terminal_io.sanitizer import sanitize, sanitize_line

SHOWN_LINES = 12
"""Differing lines of one action that are printed; the screen shows all of them."""
LINE_CELLS = 160


async def run(options: argparse.Namespace) -> int:
    """Run and compare. Raises HandloomError before anything is run."""
    home = home_folder(os.environ)
    settings = load(home, os.environ, runtime=options.runtime, agent__confirm=options.confirm)
    interrupted = interrupts()
    async with command_manager(home, settings) as manager:
        conversation_id = await own_id(manager.store, options.id)
        rerun = await runner.start_rerun(
            manager, conversation_id, workspace=options.workspace or "", stop_at_difference=options.stop_at_first
        )
        return await _play_and_report(rerun, interrupted, as_json=options.json)


async def _play_and_report(rerun: Rerun, interrupted: asyncio.Event, *, as_json: bool) -> int:
    session = rerun.session
    notice(f"conversation {session.info.id}")
    for note in rerun.notes:
        notice(note)
    if session.runtime.isolation == "none":
        why = f": {session.runtime.why_open}" if session.runtime.why_open else ""
        notice(f"No sandbox: the actions run directly on this machine with your permissions{why}.")
    reporter = _Reporter(rerun.pairing, _print_json if as_json else _print_text)
    playing = asyncio.create_task(rerun.play(ask))
    try:
        while not (playing.done() or interrupted.is_set() or rerun.is_stopped):
            rerun.changed.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (rerun.changed, interrupted)]
            await asyncio.wait([playing, *waits], return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            reporter.report()
        if playing.done():
            playing.result()
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    if interrupted.is_set():
        await session.interrupt()
        await session.settled()
    if not rerun.has_ended and session.state.reason:
        notice(session.state.reason)
    reporter.report()
    _print_summary(rerun, as_json=as_json)
    if interrupted.is_set():
        return ExitStatus.INTERRUPTED
    return ExitStatus.FINISHED if rerun.has_ended and rerun.pairing.is_same else ExitStatus.ERROR


class _Reporter:
    """Prints each action once its outcome is known, in the order of the recording."""

    def __init__(self, pairing: Pairing, print_pair: Callable[[int, Pair, Comparison], None]) -> None:
        self._pairing = pairing
        self._print = print_pair
        self._count = 0

    def report(self) -> None:
        pairs = self._pairing.pairs
        while self._count < len(pairs) and (comparison := pairs[self._count].comparison) is not None:
            self._print(self._count + 1, pairs[self._count], comparison)
            self._count += 1


def _print_text(number: int, pair: Pair, comparison: Comparison) -> None:
    what = sanitize_line(pair.step.action.message, LINE_CELLS)
    say(f"{number:>4} {MARKS[comparison.outcome]} {WORDS[comparison.outcome]}: {what}")
    if comparison.outcome is Outcome.ALIKE:
        say(f"       {_('Except for: {rules}.').format(rules=rule_words(comparison.rules))}")
    if comparison.outcome is Outcome.NOT_RUN and comparison.lines[0].new:
        say(f"       {sanitize_line(comparison.lines[0].new, LINE_CELLS)}")
    if comparison.outcome.is_match:
        return
    differing = [line for line in comparison.lines if line.outcome is Outcome.DIFFERENT]
    for line in differing[:SHOWN_LINES]:
        for sign, text in (("-", line.recorded), ("+", line.new)):
            if text is not None:
                say(f"     {sign} {sanitize_line(text, LINE_CELLS)}")
    if len(differing) > SHOWN_LINES:
        say(f"       {_('{count} more lines differ.').format(count=len(differing) - SHOWN_LINES)}")


def _print_json(number: int, pair: Pair, comparison: Comparison) -> None:
    say(json.dumps(pair_to_dict(number, pair, comparison)))


def pair_to_dict(number: int, pair: Pair, comparison: Comparison) -> dict[str, Any]:
    return {
        "number": number,
        "action": pair.step.action.kind,
        "what": pair.step.action.message,
        "outcome": str(comparison.outcome),
        "always_differs": sorted(comparison.rules),
        "recorded_id": pair.step.envelope.id,
        "new_id": pair.new.id if pair.new else None,
        "differences": [
            {"recorded": line.recorded, "new": line.new}
            for line in comparison.lines
            if line.outcome is Outcome.DIFFERENT
        ],
    }


def _print_summary(rerun: Rerun, *, as_json: bool) -> None:
    pairing, id = rerun.pairing, rerun.session.info.id
    if as_json:
        counts = {str(outcome): pairing.counts()[outcome] for outcome in Outcome}
        done = {"conversation_id": id, "of": rerun.source.id, "is_over": rerun.has_ended, **counts}
        say(json.dumps({"summary": {**done, "is_same": rerun.has_ended and pairing.is_same}}))
        return
    if rerun.stopped_at is not None and not rerun.has_ended:
        say(_("Stopped at the first difference."))
    say(sanitize(f"{summary(pairing)}."))
