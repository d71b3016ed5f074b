"""Hostile pages in live sessions: a real conversation, shell, browser and network, and a model that obeys all it reads.

world        a simulated internet in a network namespace: names, pages, attackers; records connections and data
obeying      the model, its orders in pages, and the user who denies everything
session      the session over the pages, and its result; `python -m tests.security.live.session`
trial        starts that in a namespace and reads its report
"""
