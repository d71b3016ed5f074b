"""Comparisons with published programs: `python -m tests.peers`, and tests that need their packages."""
