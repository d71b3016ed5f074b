"""Everything that is kept: the events of all conversations in one SQLite file, and the blobs beside it."""
