"""Import and export of conversations: formats of other programs, and Handloom's own archive.

Nothing here uses a network. Imported files are untrusted (`untrusted_files`, `bounded_json`); exports are searched for
secrets first (`secret_scan`).
"""
