"""What a shell command would do, told by its syntax tree and never by looking for substrings."""
