"""One open conversation: its preparation, its turns, its delegates, what is taken back, and its end."""
