"""JupyterPlugin: Python cells in a kernel that keeps its variables. Carries out IPythonRunCellAction.

    plugin          JupyterPlugin: runs one cell at a time and makes its observation
    kernel_pool     the current kernel, and a warm spare in case it dies
    kernel          one kernel: runs cells, interrupts them, notices its death; lends it secrets
    kernel_process  the kernel's process: start and end
    channels        the kernel's signed messages, over sockets in a private folder
    cell_output     what a cell printed and displayed, with limits
    kernel_program  the program that runs in the kernel's process

There is no gateway and no port: the server talks to the kernel directly. Invariants: no output of a cell is lost, and
none grows without limit; every cell gets one observation, even if its kernel dies, and the observation says that the
state is lost; the next cell has a kernel. Texts are those of OpenHands V0 (`openhands/runtime/plugins/jupyter/`).
"""
