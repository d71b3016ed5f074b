"""Batches: a list of tasks, each carried out as a conversation of its own, several at a time.

`tasks` reads the list, `ledger` stores what has become of each task, `engine` carries out attempts, `driver` decides,
`results` writes files for other programs.
"""
