"""The layout of the workspace: which panes are visible, as a pure function, and the style sheet."""

from __future__ import annotations

from typing import NamedTuple

PANES = ("chat", "events", "terminal", "browser")
NARROW = 100
"""Columns below which one pane is shown."""
WIDE = 160
"""Columns from which all panes are shown."""
SPLIT = 120
"""Columns from which two conversations fit side by side."""
SPLIT_WIDE = 200
"""Columns from which the other panes fit beside the two."""
LOW = 30
"""Rows below which less important parts are hidden."""
SMALL = 16
"""Rows below which a question covers nearly everything else."""
TINY = 12
"""Rows below which only the prompt, one pane and the footer are left."""
LEAST = 7
"""Rows below which a question shows only its body and the highlighted answer."""


class Arrangement(NamedTuple):
    """The visible panes."""

    visible: frozenset[str]
    tabs: bool
    """Whether the tab bar names the panes, because only one fits."""


def arrange(
    width: int, active_pane: str, side: str, maximised: bool, has_pages: bool = False, *, split: bool = False
) -> Arrangement:
    """The panes for a width: `active_pane` was chosen last, `side` was the last one other than the chat.

    The browser is shown once there are pages, or if it is active. In a `split`, the pane `beside` has the second
    conversation; it is hidden while another pane than the chat is active.
    """
    if width < NARROW:
        return Arrangement(frozenset({active_pane}), tabs=True)
    if maximised:
        return Arrangement(frozenset({active_pane}), tabs=False)
    if split and width >= SPLIT and (active_pane == "chat" or width >= SPLIT_WIDE):
        rest = arrange(width, active_pane, side, maximised, has_pages).visible if width >= SPLIT_WIDE else frozenset()
        return Arrangement(frozenset({"chat", "beside"}) | rest, tabs=False)
    if width < WIDE:
        return Arrangement(frozenset({"chat", side}), tabs=False)
    hidden = frozenset() if has_pages or active_pane == "browser" else frozenset({"browser"})
    return Arrangement(frozenset(PANES) - hidden, tabs=False)


WORKSPACE_CSS = """
Workspace {
    background: $background; layers: base above;
    #body { height: 1fr; }
    #side { width: 2fr; }
    #chat, #beside, #events, #terminal, #browser {
        height: 1fr; background: $background;
        border-top: solid $panel; border-title-color: $text-muted; border-title-style: none;
        padding: 0 0 0 1;
    }
    #events, #terminal, #browser, .-split > #beside { border-left: solid $panel; }
    #chats.-split > .-owner { border-top: solid $accent; border-title-color: $text-accent; }
    #detail {
        display: none; width: 1fr; height: 1fr; background: $background;
        border: solid $panel; border-right: none; padding: 0 0 0 1;
        border-title-color: $text-muted; border-subtitle-color: $text-muted;
    }
    #detail:focus { border-top: heavy $accent; border-title-color: $text-accent; border-title-style: bold; }
    #side > #browser { height: 2fr; }
    #chat:focus, #beside:focus, #events:focus, #terminal:focus, #browser:focus {
        border-top: heavy $accent; border-title-color: $text-accent; border-title-style: bold;
    }
    #terminal.-taken { border-top: heavy $warning; border-title-color: $text-warning; }
    #filter-bar { border-left: solid $panel; }
    &.-one-pane #chat, &.-one-pane #events, &.-one-pane #terminal, &.-one-pane #browser, &.-one-pane #filter-bar {
        border-left: none;
    }
    &.-one-pane #body > * { width: 1fr; }
    #bottom { height: auto; max-height: 90%; }
    &.-tiny Hints { display: none; }
    &.-tiny Hints.-flash { display: block; }
    &.-tiny Footer.-flash { display: none; }
    &.-tiny WhichKey { margin-bottom: 1; }
    &.-low QuestionView > .question--body { max-height: 17vh; }
    &.-low QuestionView > .question--rows { max-height: 25vh; }
    &.-small #prompt { border: none; min-height: 1; padding: 0; }
    &.-small #bottom { max-height: 90%; }
    &.-small QuestionView > .question--title { max-height: 1; }
    &.-small QuestionView > .question--body { max-height: 3; }
    &.-small QuestionView > .question--rows { max-height: 2; }
    &.-small QuestionView > .question--why { display: none; }
    &.-small QuestionView > .question--note { max-height: 1; }
    &.-small QuestionView > .question--typed { max-height: 1; }
    &.-small QuestionView .question--whole { display: block; }
    &.-small QuestionView .question--reasons { display: none; }
    &.-small QuestionView > .question--message { max-height: 2; }
    &.-small QuestionView.-message {
        & > .question--why, & > .question--typed { display: none; }
    }
    &.-tiny QuestionView > .question--body { max-height: 1; }
    &.-tiny QuestionView > .question--rows { max-height: 2; }
    &.-tiny QuestionView > .question--why, &.-tiny QuestionView > .question--note { display: none; }
    &.-tiny QuestionView .question--whole { display: none; }
    &.-tiny QuestionView > .question--typed { display: none; }
    &.-tiny QuestionView.-hides > .question--typed { display: block; }
    &.-tiny QuestionView.-hides > .question--rows { max-height: 1; }
    &.-tiny QuestionView > .question--message { max-height: 20vh; }
    &.-tiny QuestionView.-message > .question--title { display: none; }
    &.-tiny #bottom { max-height: 100%; scrollbar-size: 0 0; }
    &.-least QuestionView > .question--title { display: none; }
    &.-least QuestionView.-message > .question--rows { max-height: 1; }
    &.-tiny TabStrip { display: none; }
    &.-tiny #filter-bar { height: 1; }
    &.-tiny #queue { max-height: 1; }
    &.-tiny #transport { border: none; height: 1; padding: 0; }
    &.-tiny #prompt { border: none; min-height: 1; height: 1; scrollbar-size: 0 0; }
    &.-tiny #chat, &.-tiny #beside, &.-tiny #events, &.-tiny #terminal, &.-tiny #browser { border: none; }
}
Workspace.-copying {
    & TabStrip, & #bottom, & Footer { display: none; }
    & #chat, & #events, & #terminal, & #browser { border: none; padding: 0; scrollbar-size-vertical: 0; }
    & Hints { display: block; }
}
"""
