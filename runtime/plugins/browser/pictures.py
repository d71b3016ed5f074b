"""Where pictures of pages are kept: outside of the workspace, in the session's data folder.

The worker is told by a variable of its environment. Without it, no picture is kept.
"""

PICTURES = "HANDLOOM_PICTURES"
"""The variable; its value is a folder, made with the first picture."""
