"""Trust in project folders: files that would instruct an agent or run something, and whether the user approved them.

Invariant: nothing in a folder has an effect unless the user was shown exactly this text. `core.trust.folder_survey`
finds the files, and `core.trust.trust_store` stores the approvals.
"""
