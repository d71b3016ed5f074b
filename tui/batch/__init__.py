"""Batches on the command line, and the screen of one."""
