"""Random keys typed at questions of every kind: nothing happens that was not highlighted and confirmed.

The rule is checked from outside, by what the screen shows before each key and what the session was told after it: an
action runs, a permission or denial is stored, a plan is approved and a way out of a halt is taken only by Enter on an
empty prompt, on the row that is drawn as highlighted, once the question has been there for the guard's time. A denial
says what stood in the prompt. Half of the strings begin with words, because people type words.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from core.controller.halts import Halt, HaltKind
from core.controller.state import Pending
from core.events import AgentState, CmdRunAction, EventSource, FileEditAction, Judged
from core.events import TaskTrackingAction as Plan
from core.events import TaskTrackingObservation as Planned
from core.security.confirmation import NOT_WANTED
from core.settings.screen_settings import ScreenSettings
from tests.campaign.trial import Facts, Result, Violation, check, run_trials
from tests.tui.frame.running import Running, running
from tui.model.held import GUARD_S
from tui.widgets.question import AnswerRow

FULL = 10_000
AT_ONCE = 50
"""Strings in one running app."""
PROMISE = "nothing is approved or stored that was not highlighted and confirmed"
WORDS = ("please don't", "yes", "no", "y", "n", "always", "allow", "summary please", "1", "stop", "l", "a\ny", " ")
KEYS = (
    *"ynaplswverxmkbtiq",
    *"123456789",
    *("enter", "enter", "enter", "enter", "up", "down", "down", "escape", "space", "backspace", "ctrl+u", "ctrl+j"),
    *("pageup", "pagedown", "shift+tab", "home", "end", "ctrl+a"),
)
ACTING = frozenset({"enter", "ctrl+j", "escape", "shift+tab"})
"""Keys after which all that they begin is waited for; what another key should begin is found with the next of these."""
PAUSES_S = (0.0, 0.03, 0.15, 0.5, 1.0, 3.0)
COMES_TO: dict[str, list[tuple[str, ...]]] = {
    "Allow once": [("confirm",)],
    "Deny": [("reject", NOT_WANTED)],
    "Deny and stop the agent": [("reject", "")],
    "Deny, drop the 1 actions behind it, and stop the agent": [("reject", "")],
    "Allow all 2 of this kind, once": [("alike",)],
    "Carry out the plan": [("approve_plan", "one")],
    "Try again": [("take", "retry")],
    "Extend the limit by the same amount": [("take", "extend")],
    "Compact the conversation, then try again": [("take", "condense")],
    "Restart the sandbox": [("take", "restart_sandbox")],
    "Continue without it: the agent reads the error": [("take", "skip")],
    "Tell the agent that it is repeating itself": [("take", "tell")],
    "Remove the loop from what the model sees, and wait for me": [("take", "cut_loop")],
    "Send my last request again": [("take", "resend")],
    "Stop here and leave the work as it is": [("take", "stop")],
}
"""What the session is told where a row of this title is taken; rows that are missing tell it nothing."""
HARMLESS = frozenset({"set_confirm_mode", "send"})
"""What may be told at any time: the mode runs nothing, and a message is a message."""


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


KINDS = {
    "low risk": _low,
    "high risk": _high,
    "a rule that asks every time": _stays,
    "an edit": _edit,
    "several": _several,
    "limit": _halted(Halt(HaltKind.LIMIT, "iterations")),
    "model": _halted(Halt(HaltKind.MODEL, "not_found")),
    "context": _halted(Halt(HaltKind.MODEL, "context_window")),
    "sandbox": _halted(Halt(HaltKind.SANDBOX)),
    "stuck": _halted(Halt(HaltKind.STUCK, "monologue", 7)),
    "plan": _plan,
}


def strings(chance: random.Random) -> list[str]:
    """The keys of one string."""
    keys = [chance.choice(KEYS) for _ in range(chance.randint(1, 12))]
    if chance.random() < 0.5:
        typed = ["ctrl+j" if letter == "\n" else letter for letter in chance.choice(WORDS)]
        keys = [*typed, *keys]
    return keys


async def _settled(it: Running) -> None:
    for _ in range(3):
        await it.pilot.pause()
    if it.shows_the_workspace:
        await it.settle()


def _drawn(it: Running) -> str:
    """The text of the row that is drawn as highlighted; empty where no question takes keys."""
    view = it.app.workspace.question
    if view is None or not it.shows_the_workspace or not it.prompt_has_focus:
        return ""
    rows = [row for row in view.query(AnswerRow) if row.has_class("-at")]
    return str(rows[0].render()).strip().partition(" ")[2].partition(" ")[2] if len(rows) == 1 else ""


def allowed(key: str, text: str, row: str, seen_s: float) -> list[list[tuple[str, ...]]]:
    """All that a key may come to, by what was on the screen before it."""
    if key != "enter" or not row or seen_s < GUARD_S:
        return [[]]
    if text:
        return [[], [("reject", text)], [("reject", text.removeprefix("/"))]]
    title, _colon, pattern = row.partition(": ")
    verdict, _space, scope = title.removeprefix("Always ").partition(" ")
    if pattern and verdict in ("allow", "deny"):
        answer = ("confirm",) if verdict == "allow" else ("reject", NOT_WANTED)
        return [[("permit", pattern, scope.removeprefix("in this "), verdict), answer]]
    return [COMES_TO.get(row, [])]


async def _type(it: Running, kind: str, keys: list[str], chance: random.Random, facts: Facts) -> None:
    """Type one string at one question, and check what each key comes to."""
    await KINDS[kind](it)
    await _settled(it)
    appeared, shown = it.clock.now, _drawn(it)
    check(bool(shown), f"{kind}: no question")
    typed, told = [], len(it.session.wishes)
    for key in [*keys, "escape"]:  # after which everything that was begun has come to its end
        it.clock.now += chance.choice(PAUSES_S)
        text, row = it.app.workspace.prompt.text, _drawn(it)
        in_dialog = not it.shows_the_workspace
        typed.append(key)
        await it.pilot.press(key)
        if key in ACTING:
            await _settled(it)
        came = [wish for wish in it.session.wishes[told:] if wish[0] not in HARMLESS]
        told = len(it.session.wishes)
        if in_dialog and came and key in ("enter", "ctrl+j") and came[0][:2] == ("take", "switch_model"):
            facts.counts["models chosen in the list"] += 1
            return
        may_come = allowed(key, text, row, it.clock.now - appeared)
        if came not in may_come:
            raise Violation(f"{kind}: {typed} with {text!r} in the prompt and {row!r} highlighted came to {came}")
        facts.counts["answers"] += bool(came)
        if came or it.app.workspace.question is None:
            return
    facts.counts["strings that answer nothing"] += 1


async def _clear(it: Running) -> None:
    """Nothing is asked, and nothing is written."""
    while not it.shows_the_workspace:
        it.app.pop_screen()
        await it.pilot.pause()
    it.app.workspace.prompt.put("")
    it.app.workspace.notice.clear()
    await it.session.become(
        agent_state=AgentState.AWAITING_USER_INPUT, awaiting=None, halt=None, planning=False, queue=()
    )
    it.app.workspace.prompt.focus()
    await _settled(it)


async def _tried(seed: int, count: int) -> Facts:
    facts, chance = Facts(), random.Random(seed)
    async with running((100, 34), screen=ScreenSettings()) as it:
        for n in range(count):
            kind = list(KINDS)[n % len(KINDS)]
            await _type(it, kind, strings(chance), chance, facts)
            facts.counts["strings"] += 1
            await _clear(it)
    return facts


def trial(case: tuple[int, int]) -> Facts:
    """So many strings in one app, from a seed."""
    seed, count = case
    return asyncio.run(_tried(seed, count))


def run(count: int, seed: int, *, at_once: int = AT_ONCE) -> Result:
    """Type so many strings."""
    chance = random.Random(seed)
    cases = [(chance.randrange(10**9), at_once) for _ in range(count // at_once)]
    return run_trials("keystrokes", PROMISE, trial, cases, seed=seed, weight=at_once)
