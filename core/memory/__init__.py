"""What the model gets to see: the history as messages, and what memory adds to it. Pure functions only."""
