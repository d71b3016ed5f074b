"""The campaign: what must never happen, tried thousands of times; each figure with its seed, count and machine.

    kills           `handloom run` is killed at random points; nothing that it printed is lost, and it goes on
    crash_points    a writer is killed at every system call that touches the database
    disk_faults     EIO and ENOSPC at every write and sync; nothing is acknowledged that is not stored
    mending         databases are damaged and mended; what can be read is saved, what is lost is told
    owners          processes contend for one conversation and are killed; there are never two writers
    interleavings   random interleavings of everything around the controller; its invariants hold
    shell_deaths    shells end or are killed; one observation each, and the next command works
    interrupts      commands are interrupted at random points; the next command works, and no process is left
    trajectories    mutated events and trajectories; each is refused with a reason, or kept whole
    endurance       the workspace works for an hour, or HANDLOOM_ENDURANCE_MINUTES; nothing that it holds grows

`make campaign` runs the full counts and writes docs/campaign.json and docs/campaign.md; the tests run a short form of
each. Every part has a control: something broken on purpose, which the same check has to notice.
"""
