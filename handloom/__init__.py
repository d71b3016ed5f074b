"""The one package that is installed: it holds the entry, and `core`, `runtime`, `tui` and `themes` beside it.

The repository keeps those four at its top. Within Handloom they are imported by these short names; `entry` sees to it
that they are Handloom's own.
"""
