"""For a node of a cluster: makes the modules of Handloom importable in the processes of Ray."""

import sys

from handloom.entry import own_folder


def set_path() -> None:
    """Search Handloom's own modules first, as the program does."""
    folder = own_folder()
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
