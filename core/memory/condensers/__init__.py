"""The condensers: ways to shorten what the model sees, one file each. `making.py` has the table."""
