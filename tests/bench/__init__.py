"""Every figure of Handloom, beside what the machine can do in the same run: `make bench`.

    figure      a figure, its limit and its targets; pure
    report      the lines for people, and the document of BENCH_JSON
    places      a store, a session and a shell to measure in, on a real disk
    program     a program on a pseudo-terminal, as its user sees it
    areas       the registry of what is measured, one module each

Absolute figures move from machine to machine and from run to run; what counts is the ratio to the limit, for which
both sides are measured in turns. Each area has a process of its own, so that none pays for another's memory. Speed
never fails a run: its exit status tells only whether a measurement broke.
"""
