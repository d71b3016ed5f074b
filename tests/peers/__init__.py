"""Programs of others against ours, with `python -m tests.peers`: no tests, since they install a world of their own."""
