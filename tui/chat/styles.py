"""Roles: what a style is for, how it looks in terms of the theme, and the glyphs that go with it.

Theme variables only, so that every theme works; one glyph, one meaning, each one cell wide.
"""

ROLES = (
    "text",
    "muted",
    "user",
    "bar",
    "title",
    "running",
    "awaiting",
    "ok",
    "failed",
    "accent",
    "heading",
    "code",
    "link",
    "string",
    "number",
    "name",
    "added",
    "removed",
    "added-word",
    "removed-word",
    "output",
    "hit",
    "hit-here",
    "chip",
    "cursor",
)
"""Each is a component class `chat--ROLE` of the view; `text` is what has no rule."""
MARKS = {
    "running": ("•", "running"),
    "awaiting": ("◇", "awaiting"),
    "ok": ("✓", "ok"),
    "failed": ("✕", "failed"),
    "interrupted": ("■", "awaiting"),
    "rejected": ("✕", "awaiting"),
    "note": ("■", "muted"),
    "status": ("→", "muted"),
    "detail": ("·", "muted"),
    "thought": ("≡", "muted"),
}
"""By the tone of a title: its glyph and the glyph's role."""
QUIET = frozenset({"note", "status", "detail", "thought"})
"""Titles that are no headlines."""

CHAT_CSS = """
ChatView {
    background: $background;
    color: $foreground;
    overflow-x: hidden;
    overflow-y: scroll;
    scrollbar-size-vertical: 1;
    scrollbar-background: $background;
    scrollbar-color: $foreground 20%;
    & > .chat--muted { color: $text-muted; }
    & > .chat--user { background: $secondary 15%; }
    & > .chat--bar { color: $secondary; background: $secondary 15%; }
    & > .chat--title { text-style: bold; }
    & > .chat--running { color: $text-accent; }
    & > .chat--awaiting { color: $text-warning; text-style: bold; }
    & > .chat--ok { color: $text-success; }
    & > .chat--failed { color: $text-error; }
    & > .chat--accent { color: $text-accent; }
    & > .chat--heading { color: $text-primary; text-style: bold; }
    & > .chat--code { background: $foreground 6%; }
    & > .chat--link { text-style: underline; }
    & > .chat--string { color: $text-success; }
    & > .chat--number { color: $text-warning; }
    & > .chat--name { color: $text-primary; }
    & > .chat--added { color: $text-success; background: $success 10%; }
    & > .chat--removed { color: $text-error; background: $error 10%; }
    & > .chat--added-word { background: $success 32%; text-style: bold; }
    & > .chat--removed-word { background: $error 32%; text-style: bold; }
    & > .chat--hit { background: $warning 30%; text-style: underline; }
    & > .chat--hit-here { background: $warning; color: $background; text-style: bold underline; }
    & > .chat--output { color: $foreground 80%; }
    & > .chat--chip { color: $text-primary; background: $primary-muted; text-style: bold; }
    & > .chat--cursor { color: $accent; }
    /* The sixteen colours of a terminal have no tints: the text tells by sign, colour and weight. */
    &:ansi {
        & > .chat--user, & > .chat--bar, & > .chat--code, & > .chat--added, & > .chat--removed {
            background: ansi_default;
        }
        & > .chat--added-word, & > .chat--removed-word { background: ansi_default; text-style: bold underline; }
        & > .chat--hit { background: ansi_default; text-style: bold underline reverse; }
        & > .chat--hit-here { color: ansi_black; background: $warning; }
    }
}
"""
