"""Many conversations: opened, copied, forked, deleted, and what they share."""
