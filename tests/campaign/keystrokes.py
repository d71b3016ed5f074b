"""Random keys typed at questions of every kind: only highlighted and confirmed answers take effect.

The rule is checked from outside, by comparing the screen before each key with the calls of the session or the dialog
after it: an action runs, a permission is stored, a plan is approved, a halt is answered and a dialog is confirmed only
by Enter on an empty prompt, on the highlighted row, after the list has been visible for the guard's time. A denial
contains the text of the prompt. Half of the strings begin with words, because people type words.

In the full counts the screen is not drawn between keys: the highlight is read from the rows.
"""

from __future__ import annotations

import asyncio
import gc
import random
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any

from textual import events
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.widgets import OptionList

from core.controller.exit_reasons import Halt, HaltKind
from core.controller.state import Pending
from core.events import AgentState, CmdRunAction, EventSource, FileEditAction, Judged, MCPAction
from core.events import TaskTrackingAction as Plan
from core.events import TaskTrackingObservation as Planned
from core.security.confirmation import NOT_WANTED
from core.settings.screen_settings import ScreenSettings
from core.trust.folder_survey import Kind, Piece, Survey
from core.trust.trust_store import TrustState
from tests.campaign.trial import WORKERS, Facts, Result, Violation, check, run_trials
from tests.tui.workspace.running_app import Running, running
from tui.agents.commands import ReadFirstScreen
from tui.dialogs.answer_list import AnswerRow
from tui.dialogs.choice_dialog import GUARD_S, AnswersScreen
from tui.dialogs.dialog import SureScreen
from tui.export.commands import FindingsScreen
from tui.trust.commands import ANSWERS, NO, YES, TrustScreen

FULL = 10_000
"""Strings for each kind of question."""
AT_ONCE = 200
"""Strings in one running app."""
AT_ONE_QUESTION = 4
"""Strings that are typed at one question, where none of them answers it."""
PROMISE = "nothing is approved or stored that was not highlighted and confirmed"
WORDS = ("please don't", "yes", "no", "y", "n", "always", "allow", "summary please", "1", "stop", "l", "a\ny", " ")
KEYS = (
    *"ynaplswverxmkbtiq",
    *"123456789",
    *("enter", "enter", "enter", "enter", "up", "down", "down", "escape", "space", "backspace", "ctrl+u", "ctrl+j"),
    *("pageup", "pagedown", "shift+tab", "home", "end", "ctrl+a"),
)
PAUSES_S = (0.0, 0.03, 0.15, 0.5, 1.0, 3.0)
COMES_TO: dict[str, list[tuple[str, ...]]] = {
    "Allow once": [("confirm",)],
    "Deny": [("reject", NOT_WANTED)],
    "Deny and stop the agent": [("reject", "")],
    "Deny this and the queued actions (1), and stop the agent": [("reject", "")],
    "Approve the plan": [("approve_plan", "one")],
    "Try again": [("recover", "retry")],
    "Extend the limit by the same amount": [("recover", "extend")],
    "Compact the conversation, then try again": [("recover", "condense")],
    "Restart the sandbox": [("recover", "restart_sandbox")],
    "Continue and show the agent the error": [("recover", "skip")],
    "Tell the agent that it is repeating itself": [("recover", "tell")],
    "Remove the loop from the context and wait for me": [("recover", "cut_loop")],
    "Send my last request again": [("recover", "resend")],
    "Stop here and keep the work as it is": [("recover", "stop")],
    ANSWERS[NO]: [("dialog", "False")],
    ANSWERS[YES]: [("dialog", "True")],
    "Do not use it": [("dialog", "False")],
    "Allow this agent until its file changes": [("dialog", "True")],
    "Cancel": [("dialog", "False")],
    "Start it": [("dialog", "True")],
    "Cancel the export": [("dialog", "None")],
    "Export with secrets redacted": [("dialog", "redact")],
    "Export unredacted": [("dialog", "keep")],
}
"""The effect of choosing a row with this title; other rows have none."""
LEFT: list[list[tuple[str, ...]]] = [[("dialog", "False")], [("dialog", "None")]]
"""What Esc in a dialog may come to."""
HARMLESS = frozenset({"set_confirm_mode", "send"})
"""Effects that are always allowed: changing the mode runs nothing, and a message is only a message."""


def _command(command: str, **judged: object) -> CmdRunAction:
    judgement = Judged.model_validate({"verdict": "ask", "rule": "mode always", "risk": "low", **judged})
    return CmdRunAction(command=command, judgement=judgement)


async def _low(it: Running) -> None:
    await it.session.hold(_command("git push origin"))


async def _high(it: Running) -> None:
    await it.session.hold(_command("rm -rf build", risk="high"))


async def _stays(it: Running) -> None:
    await it.session.hold(_command("git push", rule="policy.toml:3 ask bash(git *)", stays=True))


async def _edit(it: Running) -> None:
    await it.session.hold(FileEditAction(path="a.py", command="str_replace", old_str="a", new_str="b"))


async def _tool(it: Running) -> None:
    await it.session.hold(MCPAction(name="mail_send", arguments={"to": "a@example.org"}))


async def _several(it: Running) -> None:
    actions = [_command("echo one"), _command("echo two")]
    envelope = await it.session.stream.append_by_agent(actions[0])
    queue = tuple(Pending(envelope.id + n, action, held=True) for n, action in enumerate(actions))
    waits = AgentState.AWAITING_USER_CONFIRMATION
    await it.session.become(agent_state=waits, awaiting=envelope.id, queue=queue)


def _halted(halt: Halt) -> Callable[[Running], Awaitable[None]]:
    async def begin(it: Running) -> None:
        await it.session.become(agent_state=AgentState.ERROR, halt=halt, reason="what went wrong")

    return begin


async def _plan(it: Running) -> None:
    tasks = [{"title": "one", "status": "todo"}]
    action = await it.session.stream.append_by_agent(Plan(command="plan", task_list=tasks))
    await it.session.stream.append(Planned(command="plan", task_list=tasks), EventSource.ENVIRONMENT, action.id)
    await it.session.become(agent_state=AgentState.AWAITING_USER_INPUT, planning=True)


def _dialog(make: Callable[[], TrustScreen | AnswersScreen[Any]]) -> Callable[[Running], Awaitable[None]]:
    async def begin(it: Running) -> None:
        it.app.push_screen(make(), lambda result: it.session.wishes.append(("dialog", str(result))))

    return begin


def _trust() -> TrustScreen:
    pieces = (Piece(Kind.INSTRUCTIONS, "AGENTS.md", "Be kind.\n"), Piece(Kind.HOOKS, "hooks.toml", "run = 'x'\n"))
    return TrustScreen(TrustState(Survey("/work", pieces), waiting=pieces), asks=True)


KINDS: dict[str, Callable[[Running], Awaitable[None]]] = {
    "low risk": _low,
    "high risk": _high,
    "a rule that asks every time": _stays,
    "an edit": _edit,
    "a tool of a server": _tool,
    "several": _several,
    "limit": _halted(Halt(HaltKind.LIMIT, "iterations")),
    "model": _halted(Halt(HaltKind.MODEL, "not_found")),
    "context": _halted(Halt(HaltKind.MODEL, "context_window")),
    "sandbox": _halted(Halt(HaltKind.SANDBOX)),
    "stuck": _halted(Halt(HaltKind.STUCK, "monologue", 7)),
    "plan": _plan,
}
"""Questions above the prompt."""
DIALOGS: dict[str, Callable[[Running], Awaitable[None]]] = {
    "trust in a folder": _dialog(_trust),
    "an agent of a project": _dialog(lambda: ReadFirstScreen("agent", "Be kind.")),
    "start of a server": _dialog(lambda: SureScreen("Start this MCP server?", "start it")),
    "secrets that would leave": _dialog(lambda: FindingsScreen(["a key"])),
}
"""Questions in a dialog."""
EVERY = {**KINDS, **DIALOGS}


def strings(chance: random.Random) -> list[str]:
    """The keys of one string."""
    keys = [chance.choice(KEYS) for _ in range(chance.randint(1, 12))]
    if chance.random() < 0.5:
        typed = ["ctrl+j" if letter == "\n" else letter for letter in chance.choice(WORDS)]
        keys = [*typed, *keys]
    return keys


# -- typing --------------------------------------------------------------------------------------------------------


def _event(key: str) -> events.Key:
    """A key as Textual's Pilot makes it."""
    if len(key) == 1 and not key.isalnum():
        key = _character_to_key(key)
    try:
        character = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(key, key)))
    except KeyError:
        character = key if len(key) == 1 else ""
    return events.Key(key, character or None)


async def _press(it: Running, key: str) -> None:
    """Press a key, and wait until everything that it began has come to its end."""
    event = _event(key)
    event.set_sender(it.app)
    driver = it.app._driver
    assert driver is not None
    driver.send_message(event)
    await _settled(it)


async def _settled(it: Running) -> None:
    """Wait until no callback is ready to run and no worker is under way. A Pilot waits 40 ms at each key."""
    loop: Any = asyncio.get_running_loop()
    idle = 0
    while idle < 2:
        await asyncio.sleep(0)
        idle = 0 if loop._ready else idle + 1
        ending = [worker for worker in it.app.workers if worker.group != "page"]
        if idle == 2 and ending and it.shows_the_workspace:
            await it.app.workers.wait_for_complete(ending)
            idle = 0


def _drawn(it: Running) -> tuple[tuple[str, ...], str]:
    """The rows that are shown and the text of the highlighted one; nothing where no question takes keys."""
    screen, view = it.app.screen, it.app.workspace.question
    if isinstance(screen, TrustScreen):
        lines = screen.query_one(OptionList)
        at = lines.highlighted_option
        return tuple(_words(str(option.prompt)) for option in lines.options), _words(str(at.prompt)) if at else ""
    if isinstance(screen, AnswersScreen):
        rows = list(screen.query(AnswerRow))
    elif view is not None and it.shows_the_workspace and it.prompt_has_focus:
        rows = list(view.query(AnswerRow))
    else:
        return (), ""
    at_rows = [_title(row) for row in rows if row.has_class("-at")]
    return tuple(map(_title, rows)), at_rows[0] if len(at_rows) == 1 else ""


def _title(row: AnswerRow) -> str:
    return _words(str(row.render()))


def _words(line: str) -> str:
    """A line without the highlight's mark and without its number."""
    number, _, words = line.strip("❯ ").partition(" ")
    return words if number.isdecimal() else line.strip("❯ ")


def allowed(key: str, text: str, row: str, seen_s: float, *, in_dialog: bool = False) -> list[list[tuple[str, ...]]]:
    """Every allowed effect of a key, given the screen before it. No effect is always allowed."""
    nothing: list[tuple[str, ...]] = []
    if in_dialog and key == "escape":
        return [nothing, *LEFT]
    if key != "enter" or not row or seen_s < GUARD_S:
        return [nothing]
    if text and not in_dialog:
        return [nothing, [("reject", text)], [("reject", text.removeprefix("/"))]]
    title, _colon, pattern = row.partition(": ")
    verdict, _space, scope = title.removeprefix("Always ").partition(" ")
    if pattern and verdict in ("allow", "deny"):
        answer = ("confirm",) if verdict == "allow" else ("reject", NOT_WANTED)
        return [nothing, [("permit", pattern, scope.removeprefix("in this "), verdict), answer]]
    return [nothing, COMES_TO.get(row, [])]


async def _type(it: Running, kind: str, keys: list[str], chance: random.Random, facts: Facts) -> bool:
    """Type one string at the question that is shown, and check what each key comes to; whether it was answered."""
    appeared, (rows, row) = it.clock.now, _drawn(it)
    check(bool(row), f"{kind}: no question")
    typed, told = [], len(it.session.wishes)
    for key in [*keys, "escape"]:  # which leaves what was opened
        it.clock.now += chance.choice(PAUSES_S)
        text, in_question = it.app.workspace.prompt.text, isinstance(it.app.screen, (TrustScreen, AnswersScreen))
        in_other = not in_question and not it.shows_the_workspace
        typed.append(key)
        await _press(it, key)
        came = [wish for wish in it.session.wishes[told:] if wish[0] not in HARMLESS]
        told = len(it.session.wishes)
        if in_other and key in ("enter", "ctrl+j") and [wish[:2] for wish in came] == [("recover", "switch_model")]:
            facts.counts["models chosen in the list"] += 1
            return True
        if came not in allowed(key, text, row, it.clock.now - appeared, in_dialog=in_question):
            raise Violation(f"{kind}: {typed} with {text!r} in the prompt and {row!r} highlighted came to {came}")
        if came:
            facts.counts[f"answers to {kind}"] += 1
            return True
        facts.counts["keys that answer nothing"] += 1
        before = rows
        rows, row = _drawn(it)
        if rows != before:
            appeared = it.clock.now
    return False


async def _clear(it: Running) -> None:
    """No question is open and the prompt is empty."""
    while not it.shows_the_workspace:
        it.app.pop_screen()
        await _settled(it)
    it.app.workspace.prompt.put("")
    it.app.workspace.notice.clear()
    await it.session.become(
        agent_state=AgentState.AWAITING_USER_INPUT, awaiting=None, halt=None, planning=False, queue=()
    )
    it.app.frames.draw()
    it.app.workspace.prompt.focus()
    await _settled(it)


async def _ask(it: Running, kind: str) -> None:
    await EVERY[kind](it)
    await _settled(it)
    it.app.frames.draw()
    await _settled(it)


async def _tried(seed: int, kind: str, count: int, *, painted: bool) -> Facts:
    facts, chance = Facts(), random.Random(seed)
    async with running((100, 34), screen=ScreenSettings()) as it:
        with nullcontext() if painted else it.app.batch_update():
            is_answered = True
            for n in range(count):
                if is_answered or n % AT_ONE_QUESTION == 0 or it.app.workspace.prompt.text or not _drawn(it)[1]:
                    await _clear(it)
                    await _ask(it, kind)
                elif (view := it.app.workspace.question) is not None:
                    view.restart_guard()
                is_answered = await _type(it, kind, strings(chance), chance, facts)
                facts.counts["strings"] += 1
            await _clear(it)
    return facts


def trial(case: tuple[int, str, int, bool]) -> Facts:
    """So many strings at questions of a kind in one app, from a seed; whether the screen is painted after each key."""
    seed, kind, count, painted = case
    gc.set_threshold(100_000, 20, 100)  # the default takes a quarter of the time, for what is freed with the app
    return asyncio.run(_tried(seed, kind, count, painted=painted))


def cases(each: int, seed: int, *, at_once: int = AT_ONCE, painted: bool = False) -> list[tuple[int, str, int, bool]]:
    """So many strings for each kind of question."""
    chance = random.Random(seed)
    return [(chance.randrange(10**9), kind, at_once, painted) for _ in range(each // at_once) for kind in EVERY]


def run(each: int, seed: int) -> Result:
    """Type so many strings at each kind of question."""
    return run_cases(cases(each, seed), seed)


def run_cases(chosen: Sequence[tuple[int, str, int, bool]], seed: int, *, workers: int = WORKERS) -> Result:
    """Run some of the cases."""
    weight = chosen[0][2]
    return run_trials("keystrokes", PROMISE, trial, chosen, seed=seed, weight=weight, workers=workers)
