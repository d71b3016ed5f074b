"""Snapshots of screens as text, one file each: text, styles, and the definition of each style.

A picture that differs fails its test with the difference, line by line. `HANDLOOM_SNAPSHOTS=write` takes them all anew;
what changed is then read in the diff of the commit, and a picture that nobody looks at is of no use.
"""
