"""Programs of others against ours: `python -m tests.peers`, and tests that need what it installs."""
