"""The chat pane: the conversation as people read it.

    events, frames -> model.ChatModel -> blocks.Block -> text_pieces.Piece -> renderer.Renderer -> strips ->
    canvas.Canvas, chat_search.Finder, view.ChatView

A block is one thing said or done. A piece is a part of a block that is small enough to be drawn within a frame; long
answers are many pieces, of which only visible ones are drawn, and only the last one changes while text streams in.
`diffs` cuts diffs into pieces and `diff_view` draws them; `chat_search` finds text in all blocks. Models (`model`,
`event_text`, `blocks`, `text_pieces`) know no terminal; views import no `core`.
"""
