"""Programs of others against ours: `python -m tests.peers`. Apart from the tests, since they install their own world."""
