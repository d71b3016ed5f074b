"""JupyterPlugin: Python cells in a kernel that keeps its variables. Carries out IPythonRunCellAction.

    plugin          JupyterPlugin: runs one cell at a time; KernelPool: the kernel in use, and a warm spare
    kernel          one kernel: its process, its cells, and the secrets lent to it
    channels        the kernel's signed messages, over sockets in a private folder
    cell_output     what a cell printed and displayed, with limits
    kernel_program  the program that runs in the kernel's process

There is no gateway and no port: the server talks to the kernel directly. Invariants: no output of a cell is lost, and
none grows without limit; every cell gets one observation, even if its kernel dies, and the observation says that the
state is lost; the next cell has a kernel. Texts are those of OpenHands V0 (`openhands/runtime/plugins/jupyter/`).
"""
