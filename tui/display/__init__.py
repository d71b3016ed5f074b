"""The user's terminal: what goes out to it, what it says by itself, and how the workspace looks on it."""
