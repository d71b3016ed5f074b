"""Hostile pages in live sessions: a real conversation, shell, browser and network, and a model that obeys all it reads.

world        an internet of its own in a network namespace: names, pages, attackers; who called, and what was said
obeying      the model, its orders in pages, and the user who says no
session      the session over the pages, and what came of it; `python -m tests.security.live.session`
trial        starts that in a namespace and reads its report
"""
