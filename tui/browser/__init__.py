"""The browser pane: the pages that the agent saw, as pictures."""
