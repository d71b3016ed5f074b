"""Secrets in a kernel's environment for as long as one cell runs.

They go in by a pipe (`runtime.server.secret_handover`), so no code that the kernel runs, keeps or traces has a value in
it. A variable that the kernel has of its own stays as it is. What the cell started keeps its own copy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.secrets.command_secrets import lent
from runtime.plugins.jupyter.cell_output import Cell
from runtime.plugins.jupyter.kernel import Kernel
from runtime.server.secret_handover import SecretHandover

_TAKE = """
import os, sys
names, left = {names!r}, b""
pipe = os.open({path!r}, os.O_RDONLY)
while left.count(b"\\0") < len(names):
    left += os.read(pipe, 65536)
os.close(pipe)
sys._handloom_lent = [name for name in names if name not in os.environ]
for name, value in zip(names, left.split(b"\\0")):
    if name in sys._handloom_lent:
        os.environ[name] = os.fsdecode(value)
"""
_TAKE_BACK = """
import os, sys
for name in sys.__dict__.pop("_handloom_lent", ()):
    os.environ.pop(name, None)
"""


@asynccontextmanager
async def lent_to(kernel: Kernel, cell: Cell) -> AsyncIterator[None]:
    """Have what is lent to this task in the kernel's environment meanwhile, however the cell ends."""
    if not (values := lent()):
        yield
        return
    handover = SecretHandover(values)
    try:
        await kernel.ask(_alone(_TAKE.format(names=handover.names, path=handover.path)), cell)
        handover.close()
        yield
    finally:
        handover.close()
        if not kernel.has_ended:
            await kernel.ask(_alone(_TAKE_BACK), cell)


def _alone(code: str) -> str:
    """The code, with names of its own."""
    return f"exec({code!r}, {{}})"
