"""A question above the prompt: the list alone, and in the real app what it shows, stores and refuses."""

from __future__ import annotations

import pytest
from textual import events

from core.controller.exit_reasons import Halt, HaltKind, HaltOption
from core.controller.state import Pending
from core.events import AgentState, CmdRunAction, FileEditAction, FileWriteAction, Judged
from core.security.confirmation import NOT_WANTED, Judgement, Verdict
from core.security.patterns import parse_all
from core.security.suggested_rules import Reach
from core.settings.screen_settings import ScreenSettings
from tests.tui.workspace.running_app import Running, running, until
from tui.approval.answers import WAYS, Asked, action_list, halt_list, plan_list, scope_list
from tui.approval.question import Question
from tui.approval.view import QuestionView
from tui.dialogs.answer_list import Effect, QuestionList, Row
from tui.dialogs.choice_dialog import GUARD_S, HELD_GUARDS, KeyGuard, LastKey
from tui.dialogs.dialog import LineScreen

GUARDED = ScreenSettings()
PATTERN = "bash(git push *)"
USABLE = Reach(patterns=tuple(parse_all(PATTERN)))
PUSH = Question(7, "Run this command?", "git push origin", "low", pattern=PATTERN)


def effects(answers: QuestionList) -> list[Effect]:
    return [row.effect for row in answers.rows]


# -- the list alone ------------------------------------------------------------------------------------------------


def test_rows_of_an_action() -> None:
    answers = action_list(PUSH, USABLE)
    assert effects(answers) == [Effect.ALLOW, Effect.OPEN, Effect.DENY, Effect.STOP, Effect.OPEN]
    assert [row.stores for row in answers.rows] == [""] * 5, "nothing is stored from the first list"
    for denies, kind in ((False, Effect.PERMIT), (True, Effect.FORBID)):
        scopes = scope_list(answers, PATTERN, denies=denies)
        assert effects(scopes) == [kind, kind, kind, Effect.PATTERN]
        assert [row.value for row in scopes.rows[:3]] == ["conversation", "project", "everywhere"]
        assert all(PATTERN in row.text for row in scopes.rows[:3])
        assert scopes.above is answers


def test_highlight_starts_at_deny_for_risky_actions() -> None:
    assert action_list(PUSH, USABLE).row.effect is Effect.ALLOW
    wary = Question(7, "Run this command?", "rm -rf build", "high", starts_at_deny=True)
    assert action_list(wary, USABLE).row.effect is Effect.DENY


@pytest.mark.parametrize(
    ("question", "reach"),
    [
        (PUSH, None),
        (PUSH, Reach(patterns=USABLE.patterns, uncovered=("bash: rm x",))),
        (PUSH, Reach(problem="No such tool.")),
        (Question(7, "?", "git push", "low", pattern=PATTERN, stays=True), USABLE),
    ],
)
def test_no_row_stores_a_useless_permission(question: Question, reach: Reach | None) -> None:
    rows = action_list(question, reach).rows
    assert [row for row in rows if row.effect is Effect.OPEN and not row.denies] == []


def test_nothing_is_stored_while_a_rules_file_is_broken() -> None:
    broken = Question(7, "?", "git push", "low", pattern=PATTERN, stays=True, is_broken=True)
    assert effects(action_list(broken, USABLE)) == [Effect.ALLOW, Effect.DENY, Effect.STOP]


def test_arrows_and_digits_move_the_highlight_and_letters_do_not() -> None:
    answers = action_list(PUSH, USABLE)

    def after(*keys: str) -> int:
        moved: QuestionList | None = answers
        for key in keys:
            assert moved is not None
            moved = moved.moved(key)
        assert moved is not None
        return moved.at

    assert [after("down"), after("down", "down"), after("up"), after("5"), after("3", "down", "down", "down")] == [
        1, 2, 0, 4, 4,
    ]  # fmt: skip
    assert [answers.moved(key) for key in ("6", "9", "0", "y", "n", "a", "l", "enter", "space")] == [None] * 9


def test_every_choice_after_a_halt_has_a_row() -> None:
    assert set(WAYS) == {str(option) for option in HaltOption}
    options = [str(option) for option in Halt(HaltKind.STUCK, "monologue", 7).options]
    assert [row.value for row in halt_list("stuck", options).rows] == options
    assert effects(plan_list()) == [Effect.APPROVE_PLAN, Effect.EDIT_PLAN]


def test_row_without_permission_is_only_its_title() -> None:
    assert Row(Effect.DENY, "Deny").text == "Deny"


def test_key_guard_ignores_early_and_held_keys() -> None:
    guard = KeyGuard(appeared_at=10.0, last=LastKey("enter", 9.9))
    assert not guard.takes("down", 10.1)
    assert guard.takes("down", 10.1 + GUARD_S * HELD_GUARDS)
    held = KeyGuard(appeared_at=10.0, last=LastKey("enter", 9.9))
    assert not any(held.takes("enter", 10.56 + repeat * 0.033) for repeat in range(60))
    assert held.takes("enter", 20.0)
    assert held.takes("enter", 20.1), "two presses of a key that is taken are two presses"
    assert not KeyGuard().takes("enter", 1e9), "it was never drawn"


# -- in the app ------------------------------------------------------------------------------------------------------


async def held(it: Running, command: str = "git push origin", **judged: object) -> None:
    """Let a command wait for an answer."""
    judgement = Judged.model_validate({"verdict": "ask", "rule": "mode always", "risk": "low", **judged})
    await it.session.hold(CmdRunAction(command=command, judgement=judgement))
    await it.settle()


def highlighted(it: Running) -> str:
    view = it.app.workspace.question
    assert view is not None
    return view.answers.row.title


async def test_enter_on_the_empty_prompt_chooses_the_highlighted_row() -> None:
    async with running() as it:
        await held(it)
        assert it.prompt_has_focus
        assert "❯ 1 Allow once" in it.screen_text()
        await it.press("enter")
        assert it.session.wishes == [("confirm",)]
        assert it.app.workspace.question is None


@pytest.mark.parametrize(
    ("keys", "wishes"),
    [
        (["3", "enter"], [("reject", NOT_WANTED)]),
        (["down", "down", "enter"], [("reject", NOT_WANTED)]),
        (["4", "enter"], [("reject", "")]),
        (["2", "enter", "enter"], [("permit", PATTERN, "conversation", "allow"), ("confirm",)]),
        (["2", "enter", "2", "enter"], [("permit", PATTERN, "project", "allow"), ("confirm",)]),
        (["2", "enter", "3", "enter"], [("permit", PATTERN, "everywhere", "allow"), ("confirm",)]),
        (["5", "enter", "2", "enter"], [("permit", PATTERN, "project", "deny"), ("reject", NOT_WANTED)]),
    ],
)
async def test_answer_is_stored_with_the_scope_of_its_row(keys: list[str], wishes: list[tuple[str, ...]]) -> None:
    async with running() as it:
        await held(it)
        await it.press(*keys[:-1])
        assert it.session.wishes == [], "only the last Enter answers"
        await it.press(keys[-1])
        assert it.session.wishes == wishes


@pytest.mark.parametrize("size", [(40, 12), (30, 8), (80, 24)])
@pytest.mark.parametrize("part", ["\necho words", " harmless words"], ids=["lines", "words"])
async def test_command_that_does_not_fit_says_so_until_its_end_is_shown(size: tuple[int, int], part: str) -> None:
    async with running(size) as it:
        await held(it, f"echo{part * 24} # end")
        shown = it.screen_text()
        assert "# end" not in shown
        assert "Lines not shown: " in shown or " lines, " in shown
        await it.press("ctrl+end")
        assert "Lines not shown: " not in it.screen_text()


async def test_typed_message_denies_with_the_message() -> None:
    async with running() as it:
        await held(it, "rm -rf build", risk="high")
        assert highlighted(it) == "Deny"
        assert "Or type a message: Enter denies this and sends it to the agent" in it.screen_text()
        await it.press(*"please don't")
        assert it.app.workspace.prompt.text == "please don't"
        assert "❯" not in it.screen_text(), "Enter takes no row while there is text"
        assert it.session.wishes == []
        await it.press("enter")
        assert it.session.wishes == [("reject", "please don't")]
        assert it.app.workspace.prompt.text == ""


async def test_no_letter_answers() -> None:
    async with running() as it:
        await held(it)
        for letters in ("y", "n", "a", "p", "w", "v", "r", "l", "s", "e", "yes"):
            await it.press(*letters)
            assert it.session.wishes == []
            assert it.app.workspace.prompt.text == letters
            await it.press(*["backspace"] * len(letters))


async def test_digits_after_text_or_without_a_row_are_text() -> None:
    async with running() as it:
        await held(it)
        await it.press("9", *" files, 2 lines")
        assert it.app.workspace.prompt.text == "9 files, 2 lines"
        assert highlighted(it) == "Allow once"


async def test_early_keys_are_ignored_and_letters_reach_the_prompt() -> None:
    async with running(screen=GUARDED) as it:
        await held(it)
        await it.press("down", "enter")
        assert it.session.wishes == []
        assert highlighted(it) == "Allow once"
        assert "the key was ignored" in it.screen_text()
        await it.press("3")
        assert it.app.workspace.prompt.text == "", "with the next Enter, a digit would deny"
        await it.press(*"no3", "enter")
        assert it.session.wishes == []
        assert it.app.workspace.prompt.text == "3no3", "Enter was not taken either"
        it.clock.now += GUARD_S * HELD_GUARDS + 0.1
        await it.press("enter")
        assert it.session.wishes == [("reject", "3no3")]


@pytest.mark.parametrize("text", ["2 files", "12 of 3", "10 more", "39 lines", "3?"])
async def test_digits_that_begin_a_text_are_part_of_it(text: str) -> None:
    async with running() as it:
        await held(it)
        await it.press(*text)
        assert it.app.workspace.prompt.text == text
        assert highlighted(it) == "Allow once", "the highlight is where it was before the text"
        await it.press("enter")
        assert it.session.wishes == [("reject", text)]


async def test_early_digits_begin_a_text_and_old_ones_do_not() -> None:
    async with running(screen=GUARDED) as it:
        await held(it)
        await it.press(*"2 files")
        assert it.app.workspace.prompt.text == "2 files"
        await it.press("ctrl+u")
        it.clock.now += 10
        await it.press("3")
        it.clock.now += 2
        await it.press(*"no")
        assert it.app.workspace.prompt.text == "no"
        assert highlighted(it) == "Deny"


@pytest.mark.parametrize("guard_s", [GUARD_S, 0])
def test_keys_before_the_question_is_built_are_ignored(guard_s: float) -> None:
    view = QuestionView(Asked("Run this command?", "git push"), action_list(PUSH, USABLE), guard_s=guard_s)
    for key in ("enter", "2", "down"):
        assert view.takes_key(events.Key(key, None), "", sends=key == "enter")
    assert not view.scroll_body("page_down")
    assert not view.step_back()
    view.change(action_list(PUSH, USABLE))
    view.on_resize()
    assert view.answers.row.effect is Effect.ALLOW


async def test_question_that_goes_before_it_was_laid_out_crashes_nothing() -> None:
    async with running(screen=GUARDED) as it:
        await held(it)
        view = it.app.workspace.question
        assert view is not None
        await view.remove_children()
        view.call_after_refresh(view._fit_why)
        view.refresh()
        await it.settle()
    assert it.app.return_code in (None, 0)


async def test_prompt_with_only_spaces_is_emptied() -> None:
    async with running(screen=GUARDED) as it:
        await held(it)
        it.clock.now += 10
        await it.press("space", "space", "enter")
        assert it.app.workspace.prompt.text == ""
        assert "The prompt contained only spaces" in it.screen_text()
        for _repeat in range(20):
            it.clock.now += 0.033
            await it.press("enter")
        assert it.session.wishes == []
        it.clock.now += 10
        await it.press("enter")
        assert it.session.wishes == [("confirm",)]


async def test_key_that_is_held_down_answers_nothing() -> None:
    async with running(screen=GUARDED) as it:
        await held(it, "reboot")
        it.clock.now += GUARD_S - 0.1
        await it.press("enter")
        for repeat in range(40):  # after the first pause of the keyboard, then thirty times a second
            it.clock.now += 0.033 if repeat else 0.66
            await it.pilot.press("enter")
        await it.settle()
        assert it.session.wishes == []
        it.clock.now += GUARD_S * HELD_GUARDS + 0.1
        await it.press("enter")
        assert it.session.wishes != []


async def test_question_behind_a_dialog_is_guarded_when_it_appears() -> None:
    async with running(screen=GUARDED) as it:
        await it.press("ctrl+p")
        await held(it)
        it.clock.now += 10
        await it.press("escape")
        await it.press("enter")
        assert it.session.wishes == []


async def test_esc_steps_back_and_never_drops_the_action() -> None:
    async with running() as it:
        await held(it)
        await it.press("2", "enter")
        assert "Always allow in this conversation: bash(git push *)" in it.screen_text()
        await it.press("escape")
        assert highlighted(it) == "Always allow bash(git push *)…"
        await it.press("escape", "escape")
        assert "This action is still waiting" in it.screen_text()
        assert it.session.wishes == []
        assert it.app.workspace.question is not None


async def test_mode_change_judges_again_and_runs_nothing() -> None:
    async with running() as it:
        await held(it)
        it.session.guard.judgement = Judgement(Verdict.ALLOW, "mode auto-edit")
        await it.press("shift+tab")
        assert "Now allowed by mode “auto-approve edits”" in it.screen_text()
        assert highlighted(it) == "Allow once"
        it.session.guard.judgement = Judgement(Verdict.DENY, "mode plan", ("Nothing is changed.",))
        await it.press("shift+tab")
        assert "Now denied by mode “plan only”" in it.screen_text()
        assert highlighted(it) == "Deny"
        assert [wish for wish in it.session.wishes if wish[0] != "set_confirm_mode"] == []


async def test_edited_pattern_must_cover_the_action() -> None:
    async with running() as it:
        await held(it, "git push origin && rm x")
        await it.press("2", "enter", "4", "enter")
        assert isinstance(it.app.screen, LineScreen)
        await it.press("ctrl+u", *"bash(git push *)", "enter")
        assert "Not changed. The pattern does not match this action: bash: rm x" in it.screen_text()
        await it.press("4", "enter", "ctrl+u", *"bash(*)", "enter")
        assert "This pattern allows almost anything: bash(*)" in it.screen_text()
        assert "Always allow in this conversation: bash(*)" in it.screen_text()
        assert it.session.wishes == []
        await it.press("enter")
        assert it.session.wishes == [("permit", "bash(*)", "conversation", "allow"), ("confirm",)]


async def test_rule_that_always_asks_cannot_be_always_allowed() -> None:
    async with running() as it:
        await held(it, "git push", rule="policy.toml:3 ask bash(git *)", reasons=["It \u202e leaves."], stays=True)
        assert "Reason: policy.toml:3 ask bash(git *)" in it.screen_text()
        assert "U+202E" in it.screen_text()
        assert "This rule always asks" in it.screen_text()
        assert "Always allow" not in it.screen_text()
        await it.press("enter")
        assert it.session.wishes == [("confirm",)]


@pytest.mark.parametrize("size", [(160, 48), (80, 24), (40, 12)], ids=str)
async def test_long_command_can_be_scrolled(size: tuple[int, int]) -> None:
    async with running(size) as it:
        long = "echo\n" + "\n".join(f"line {n}" for n in range(400)) + "\nrm -rf ~"
        await held(it, long, risk="high")
        shown = it.screen_text()
        assert "❯" in shown
        assert "rm -rf ~" not in shown
        await it.press("ctrl+end")
        if size == (40, 12):  # where the reasons follow the command
            await it.press("pageup")
        assert "rm -rf ~" in it.screen_text()
        await it.press("ctrl+home")
        assert "rm -rf ~" not in it.screen_text()
        view = it.app.workspace.question
        assert view is not None
        for at, row in enumerate(view.answers.rows, 1):
            await it.press(str(at))
            assert f"❯ {at} {row.title[:12]}" in it.screen_text(), "the highlight is in sight"


@pytest.mark.parametrize("size", [(40, 12), (80, 24)])
async def test_highlighted_row_of_an_opened_list_is_visible(size: tuple[int, int]) -> None:
    async with running(size) as it:
        await held(it, "git commit -m " + "word " * 12 + "&& git push origin && npm run build-everything-again")
        view = it.app.workspace.question
        assert view is not None
        at = next(n for n, row in enumerate(view.answers.rows) if row.effect is Effect.OPEN)
        await it.press(*["down"] * at, "enter")
        await until(it.pilot, lambda: "❯ 1" in it.screen_text())
        await it.press("escape")
        await until(it.pilot, lambda: "❯" in it.screen_text())


async def test_small_screen_shows_risk_and_reasons() -> None:
    async with running((40, 12)) as it:
        await held(it, "git push origin", reasons=["One reason that is long enough for two rows.", "Zebra."])
        assert "(risk: not known)" in it.screen_text()
        assert "Zebra." not in it.screen_text()
        for _page in range(4):
            await it.press("pagedown")
        assert "Zebra." in it.screen_text()


async def test_long_reasons_scroll_below_the_command_and_the_rule_is_shown_once() -> None:
    async with running((80, 24)) as it:
        reasons = [f"Reason number {n} that is long enough for most of a row of this screen." for n in range(4)]
        await held(it, "git push origin", reasons=[*reasons, "Zebra."])
        assert it.screen_text().count("Reason: ") == 1
        for _page in range(4):
            await it.press("pagedown")
        assert "Zebra." in it.screen_text()
        assert it.screen_text().count("Reason: ") == 1


async def test_look_alike_letters_are_reported() -> None:
    async with running() as it:
        await held(it, "curl https://p\u0430ypal.example")
        assert "U+0430" in it.screen_text()


async def test_edit_is_shown_like_the_diff_in_the_chat() -> None:
    async with running() as it:
        await it.session.hold(FileEditAction(path="a.py", command="str_replace", old_str="a = 1", new_str="a = 2"))
        await it.settle()
        assert "  - a = 1" in it.screen_text()
        assert "  + a = 2" in it.screen_text()
        styles = it.app.workspace.chat.styles_used
        grounds = {str(style.bgcolor) for style in (styles["removed"], styles["added"])}
        drawn = {
            str(segment.style.bgcolor)
            for strip in it.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None
        }
        assert grounds <= drawn


async def test_waiting_actions_are_counted_and_only_the_shown_one_is_allowed() -> None:
    async with running() as it:
        actions = [CmdRunAction(command=f"echo {n}") for n in range(2)]
        first = len(it.session.stream.events)
        queue = [Pending(first + n, action, held=True) for n, action in enumerate(actions)]
        queue.append(Pending(first + 2, FileWriteAction(path="f", content=""), held=True))
        await it.session.stream.append_by_agent(actions[0])
        waits = AgentState.AWAITING_USER_CONFIRMATION
        await it.session.become(agent_state=waits, awaiting=first, queue=tuple(queue))
        await it.settle()
        assert "1 of 3" in it.screen_text()
        assert "Deny this and the queued actions (2), and stop the agent" in it.screen_text()
        await it.press("enter")
        assert it.session.wishes == [("confirm",)]


async def test_message_after_a_model_error_is_sent_as_a_message() -> None:
    async with running() as it:
        await it.session.become(halt=Halt(HaltKind.MODEL, "not_found"), reason="no such model")
        await it.settle()
        await it.press(*"summary please", "enter")
        assert it.shows_the_workspace
        assert it.session.wishes == [("send", "summary please")]


async def test_failed_answer_leaves_the_question_open() -> None:
    async with running() as it:
        await held(it)
        it.session.fails_with = OSError("the disk is full")
        await it.press("enter")
        assert "the disk is full" in it.screen_text()
        it.session.fails_with = None
        await it.press("escape", "enter")
        assert it.session.wishes == [("confirm",), ("confirm",)]


async def test_slash_command_is_not_an_answer() -> None:
    async with running() as it:
        await held(it)
        await it.press(*"/plan", "enter")
        await it.press("enter")
        assert ("reject", "/plan") not in it.session.wishes


async def test_click_highlights_a_row_only() -> None:
    async with running() as it:
        await held(it)
        rows = it.app.workspace.question.query("AnswerRow")  # type: ignore[union-attr]
        await it.pilot.click(rows[2])
        await it.settle()
        assert highlighted(it) == "Deny"
        assert it.session.wishes == []


async def test_shift_tab_cycles_through_the_modes() -> None:
    async with running() as it:
        modes, kept = [], []
        for _ in range(3):
            await it.press("shift+tab")
            modes.append(it.session.approval.mode)
            kept.append(it.session.approval.kept)
        assert modes == ["auto-edit", "plan", "always"]
        assert kept == [("auto-edit", False), ("plan", False), ("always", True)]
        it.session.approval.mode = "never"
        await it.press("shift+tab")
        assert it.session.approval.mode == "always"


async def test_key_goes_to_the_next_waiting_conversation() -> None:
    async with running() as it:
        first = it.app.tabs.current
        await it.press("ctrl+x", "N")
        assert "No conversation is waiting" in it.screen_text()
        await it.session.hold(CmdRunAction(command="ls"))
        await it.press("ctrl+n")
        assert it.app.tabs.current is not first
        await it.press("ctrl+x", "N")
        assert it.app.tabs.current is first
        await it.settle()
        assert it.app.workspace.question is not None
        assert it.prompt_has_focus
