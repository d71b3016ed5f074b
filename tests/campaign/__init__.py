"""The campaign: thousands of trials with kills, faults and random input; each figure with seed, count and machine.

    kills           `handloom run` is killed at random points; nothing that it printed is lost, and it can be resumed
    crash_points    a writer is killed at every system call that touches the database
    disk_faults     EIO and ENOSPC at every write and sync; every acknowledged event is stored
    mending         databases are damaged and repaired; readable data is recovered, lost events are reported
    owners          processes contend for one conversation and are killed; there are never two writers
    interleavings   random interleavings of everything around the controller; its invariants hold
    shell_deaths    shells end or are killed; one observation each, and the next command works
    interrupts      commands are interrupted at random points; the next command works, and no process is left
    trajectories    mutated events and trajectories; each is refused with a reason, or kept unchanged
    endurance       the workspace works for an hour, or HANDLOOM_ENDURANCE_MINUTES; its resources do not grow

`make campaign` runs the full counts and writes docs/campaign.json and docs/campaign.md; the tests run a short form of
each. Every part has a control: a deliberate bug that the same check must notice.
"""
