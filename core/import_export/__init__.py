"""Conversations taken elsewhere and brought back: the formats of others, and our own archive.

Writing goes from a home's log to a file (`writing`, `formats`), reading the other way. Nothing here decides what an
event means, and nothing here reaches a network. What comes in is hostile, what goes out is looked through first
(`findings`).
"""
