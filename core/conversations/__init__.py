"""All conversations of one home: open, create, fork, delete, and what they share."""
