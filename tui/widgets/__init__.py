"""What stands around the panes: tabs, cards, footer, transport bar, the line of a search."""
