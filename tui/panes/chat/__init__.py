"""The chat pane: the conversation as people read it.

    events, frames -> model.ChatModel -> blocks.Block -> pieces.Piece -> render.Renderer -> strips ->
    view.ChatView

A block is one thing said or done. A piece is a part of a block that is small enough to be drawn within a
frame; long answers are many pieces, of which only those in sight are drawn, and only the last one changes
while text streams in. Models (`model`, `calls`, `blocks`, `pieces`) know no terminal; views import no
`core`.
"""
