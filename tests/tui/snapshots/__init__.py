"""Snapshots of screens as text, one file each: text, styles, and the definition of each style.

A test fails with a line-by-line diff if its snapshot differs. `HANDLOOM_SNAPSHOTS=write` updates all of them; review
the changes in the diff of the commit.
"""
