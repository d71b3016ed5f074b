"""JupyterPlugin: Python cells in a kernel that keeps its variables. Carries out IPythonRunCellAction.

    plugin      JupyterPlugin: one cell at a time, and what the model reads of it
    supply      the kernel that is in use, and a warm spare for when it dies
    kernel      one kernel: a cell from its request to its end, interrupts, deaths
    process     its process: the start, the end, who goes with it
    channels    its messages, over sockets in a private folder, signed
    cell        what one cell printed and showed, bounded
    program     what runs in the kernel's process

There is no gateway and no port: the server talks to the kernel as a notebook does. Invariants: no output of a cell is
lost, and none of it grows for ever; every cell gets one observation, whatever becomes of the kernel, and what was lost
with a kernel is said; the next cell finds a kernel. Texts are those of OpenHands V0
(`openhands/runtime/plugins/jupyter/`).
"""
