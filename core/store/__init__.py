"""The storage of conversations: their events, pictures and recordings in one SQLite file."""
