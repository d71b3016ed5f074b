"""Running a saved session again: its actions in a real sandbox, and each new result beside the recorded one.

`recipe` reads what there is to do from a log, `agent` gives it to a conversation, `running` sees it through, `pairing`
puts the two logs beside each other and `comparing` says how two results differ, by the `rules` of what always differs.
No model takes part anywhere: who runs a session again spends nothing.
"""
