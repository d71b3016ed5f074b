"""Running a saved conversation again: the command, the screen and the command line."""
