"""A saved session that is run again, on the screen: its actions with their marks, and two results beside each other."""
