"""The README and the manual in docs/: what they show is checked against the program, and what can be run is run.

`pages` reads the Markdown, `commands` knows which shown commands are run and which are only parsed, and
`settings_table` and `licences` make the tables of two generated pages.
"""
