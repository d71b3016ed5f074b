"""The chat pane: the conversation as people read it.

    events, frames -> model.ChatModel -> blocks.Block -> pieces.Piece -> render.Renderer -> strips ->
    canvas.Canvas, finder.Finder, view.ChatView

A block is one thing said or done. A piece is a part of a block that is small enough to be drawn within a
frame; long answers are many pieces, of which only those in sight are drawn, and only the last one changes
while text streams in. Differences are cut by `diffs` and drawn by `diff_lines`; `search` finds text in blocks,
seen or not. Models (`model`, `calls`, `blocks`, `pieces`) know no terminal; views import no
`core`.
"""
