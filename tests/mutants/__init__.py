"""Mutation testing: plant small bugs in a copy of this source tree, and see which of them the tests notice.

    python -m tests.mutants                              60 random places of the last change
    python -m tests.mutants --package core/store         60 random places of a package or a file
    python -m tests.mutants --since main                 places in the lines that changed since a commit
    python -m tests.mutants --threats [A01 ...]          the planted bug of each row of docs/threats.md

`places` finds what can be changed, `choosing` the tests that touch a file, `copies` makes the copy and runs tests in
it, `threats` is the table of the rows. docs/mutation.md says how to read the results.
"""
