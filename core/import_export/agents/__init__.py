"""The saved sessions of other agents: where they are, and what is in them as events of V0.

Their files are only ever read. One module reads one agent; `table` lists them. To add an agent, write a module with
`discover` and `read` (`source.Source` says what they do), and add its row.
"""
