"""Twenty local pages, what BrowserGym tells of each (`*.json`), and what we tell of it.

The `.json` files are made by BrowserGym itself: `python -m tests.peers browsergym --keep`. Boxes depend on the fonts
of a machine; they are compared only where BrowserGym runs beside us.
"""
