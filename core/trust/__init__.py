"""Trust of folders: what a project brings that would direct an agent or run something, and whether the user said yes.

Invariant: of what lies in a folder, nothing counts but what the user was shown, to the letter. See
`core.trust.folder_survey` for what is looked for, and `core.trust.trust_store` for where a yes is kept.
"""
