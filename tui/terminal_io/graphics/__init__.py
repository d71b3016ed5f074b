"""Pictures that the terminal itself draws, where it can: kitty's protocol, sixel. Cells are the last resort, elsewhere.

`terminal` asks the terminal what it can and reads what it answers; `kitty` and `sixel` make what is written, and are
pure; `sharp` keeps one pane's picture on the screen and takes it away again. Nothing here is imported before a picture
of a page is to be drawn, but for `cells`.
"""
