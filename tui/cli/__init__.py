"""What `handloom` does without its full screen: the command line, lines read aloud, reports."""
