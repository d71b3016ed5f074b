"""The table of programs in parts. Data alone."""
