"""The card that asks whether an action may be carried out: the whole of it, why it is asked, and how far a yes reaches.

The body is all there is, scrollable to its last line, and the card says how long it is. Below stand the rule that
asks, and the pattern that a permission would cover, which can be edited; what it would mean is told while it is typed.
Sends messages up; the handlers answer the session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tui.commands import key_of, keyed
from tui.display.text import sanitize, sanitize_line
from tui.i18n import _
from tui.widgets.cards import Card, keys_line
from tui.widgets.field import Field

if TYPE_CHECKING:
    from core.security.proposals import Reach
    from tui.model.questions import Question

LONG_LINES = 3
"""Bodies that are longer say how long they are."""
SHOWN = 400
"""Cells of what is quoted beside the body; the body itself has no limit."""


def _keys_line(answers: list[tuple[str, str]]) -> Content:
    """Answers, by their names in the command table, with what they do."""
    return keys_line(*((key_of(f"approval.{name}"), word) for name, word in answers))


class ApprovalCard(Card):
    """May this action be carried out?"""

    DEFAULT_CSS = """
    ApprovalCard {
        & > Input, & > Input:focus { height: 1; border: none; padding: 0 1; background: $surface; }
        & > .card--why, & > .card--reach, & > .card--size { height: auto; color: $text-muted; }
        & > .card--reach.-wrong { color: $text-error; }
        & > .card--said { height: auto; color: $text-accent; text-style: bold; }
        &.-never { border-left: outer $error; background: $error 8%; }
        &.-never > .card--title { color: $text-error; }
    }
    """

    class Refused(Message):
        """The user said no, and why."""

        def __init__(self, action_id: int, reason: str) -> None:
            super().__init__()
            self.action_id = action_id
            self.reason = reason

    def __init__(self, question: Question, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.question = question
        self.pattern = question.pattern
        self.never = False
        """Whether the keys for a scope deny from now on."""
        self.reach: Reach | None = None
        """What the pattern would mean; None until it was looked at."""

    def compose(self) -> ComposeResult:
        question = self.question
        title = question.title
        if question.of > 1:
            title += "   " + _("{n} of {count}").format(n=question.number, count=question.of)
        if question.risk:
            title += "   " + _("(risk: {risk})").format(risk=question.risk)
        yield Static(Content(title), classes="card--title")
        with VerticalScroll(can_focus=False):
            yield Static(Content(question.body))
        yield Static(Content(self._length()), classes="card--size")
        yield Static(Content(self._why()), classes="card--why")
        yield Static(classes="card--reach")
        yield Static(classes="card--said")
        yield Static(classes="card--keys")

    def on_mount(self) -> None:
        """Say what the keys do, and what the proposed pattern means."""
        self.query_one(".card--size").display = bool(self._length())
        self.query_one(".card--why").display = bool(self._why())
        self.query_one(".card--said").display = False
        self._show_keys()
        self._look_at(self.pattern)

    def _length(self) -> str:
        body = self.question.body
        lines = body.count("\n") + 1
        if lines <= LONG_LINES and len(body) <= SHOWN:
            return ""
        told = _("{lines} lines, {characters} characters; ↑ ↓ PgUp PgDn Home End scroll to its end.")
        return told.format(lines=f"{lines:,}", characters=f"{len(body):,}")

    def _why(self) -> str:
        question = self.question
        asks = _("Asked by: {rule}").format(rule=question.rule) if question.rule else ""
        stays = _("It asks each time, whatever is permitted.") if question.stays else ""
        return " · ".join(filter(None, (asks, *question.reasons, stays)))

    def _show_keys(self) -> None:
        yes = [("approve", _("once"))]
        if self.question.alike:
            yes.append(("alike", _("all {count} alike").format(count=self.question.alike + 1)))
        if self.never:
            yes += [("always", _("never in this conversation")), ("project", _("never in this project"))]
            yes += [("everywhere", _("never anywhere")), ("never", _("rather always"))]
        elif not self.question.stays and self.pattern:
            yes += [("always", _("this conversation")), ("project", _("this project")), ("everywhere", _("everywhere"))]
        behind = self.question.behind
        stop = _("deny, drop the {n} behind it, and stop").format(n=behind) if behind else _("deny and stop")
        no = [("deny", _("deny")), ("reason", _("deny and say why")), ("stop", stop)]
        no += [("never", _("never…"))] * (not self.never) + [("pattern", _("pattern"))]
        lines = Content.assemble(_keys_line(yes), "\n", _keys_line(no))
        self.query_one(".card--keys", Static).update(lines)
        self.set_class(self.never, "-never")

    # -- the pattern -----------------------------------------------------------------------------------------------

    @work(exclusive=True, group="reach")
    async def _look_at(self, text: str) -> None:
        """Find out what a pattern would mean, and say it. Follows links on the disk, so in a thread."""
        look = self.question.look
        self.reach = await asyncio.to_thread(look, text) if look is not None else None
        if self.query(".card--reach"):  # it may have been answered meanwhile
            self._show_reach(text)
            self._show_keys()

    def _show_reach(self, text: str) -> None:
        line, reach = self.query_one(".card--reach", Static), self.reach
        line.display = reach is not None
        if reach is None:
            return
        if not text:
            line.update(
                Content(
                    keyed(
                        _(
                            "Too much of it to permit at once, or it cannot be read: {approval.approve} allows it "
                            "this once."
                        )
                    )
                )
            )
            return
        said = _("Never would deny: {pattern}") if self.never else _("A permission would allow: {pattern}")
        told = [said.format(pattern=sanitize_line(text, SHOWN))]
        if reach.problem:
            told.append(sanitize(reach.problem))
        if reach.uncovered:
            what = ", ".join(sanitize_line(part, 80) for part in reach.uncovered[:3])
            told.append(_("It does not cover this action: {what}.").format(what=what))
        if reach.broad:
            what = ", ".join(sanitize_line(pattern, 80) for pattern in reach.broad[:3])
            told.append(_("That is broad, it lets nearly anything through: {pattern}.").format(pattern=what))
        line.update(Content("\n".join(told)))
        line.set_class(bool(reach.problem or reach.uncovered or reach.broad), "-wrong")

    def say(self, text: str) -> None:
        """Say why a key did nothing, where whoever pressed it looks."""
        line = self.query_one(".card--said", Static)
        line.update(Content(text))
        line.display = True

    def toggle_never(self) -> None:
        """The keys for a scope deny from now on, or allow again."""
        self.never = not self.never
        self._show_keys()
        self._show_reach(self.pattern)

    # -- writing ---------------------------------------------------------------------------------------------------

    async def ask_reason(self) -> None:
        """Let the user write the reason; Enter sends it, Esc gives up writing."""
        await self._write("reason", "", _("Why not? Enter sends it, Esc goes back."))

    async def edit_pattern(self) -> None:
        """Let the user change the pattern; Enter takes it, Esc leaves it as it was. Nothing is granted by that."""
        await self._write("pattern", self.pattern, _("Such as bash(git push *). Enter takes it, Esc goes back."))

    async def _write(self, name: str, text: str, placeholder: str) -> None:
        await self.query(Input).remove()
        line = Field(text, placeholder=placeholder, name=name, select_on_focus=False)
        await self.mount(line, before=self.query_one(".card--keys"))
        line.focus()

    def stop_writing(self) -> None:
        """Take the line away again."""
        self.query(Input).remove()
        self._look_at(self.pattern)
        self.focus()

    @on(Input.Changed)
    def _pattern_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.name == "pattern":
            self._look_at(event.value)

    @on(Input.Submitted)
    def _written(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.name == "reason":
            self.post_message(self.Refused(self.question.action_id, event.value))
        else:
            self.pattern = event.value.strip() or self.question.pattern
            self.stop_writing()

    # -- reading ---------------------------------------------------------------------------------------------------

    def scroll_body(self, where: str) -> None:
        """Scroll what is asked: up, down, pageup, pagedown, home or end."""
        body = self.query_one(VerticalScroll)
        match where:
            case "up" | "down":
                body.scroll_relative(y=1 if where == "down" else -1, animate=False)
            case "pageup":
                body.scroll_page_up(animate=False)
            case "pagedown":
                body.scroll_page_down(animate=False)
            case "home":
                body.scroll_home(animate=False)
            case "end":
                body.scroll_end(animate=False)

    def key_up(self) -> None:
        self.scroll_body("up")

    def key_down(self) -> None:
        self.scroll_body("down")

    def key_pageup(self) -> None:
        self.scroll_body("pageup")

    def key_pagedown(self) -> None:
        self.scroll_body("pagedown")

    def key_home(self) -> None:
        self.scroll_body("home")

    def key_end(self) -> None:
        self.scroll_body("end")
