"""Pictures that the terminal draws, by kitty's protocol, as iTerm2's inline images, or in sixels; elsewhere pictures
are drawn as cells.

`graphics_terminal` asks the terminal what it can draw, `kitty` and `terminal_picture` make what is written. Of these,
only `kitty` and `picture_cells` are imported before the picture of a page is drawn.
"""
