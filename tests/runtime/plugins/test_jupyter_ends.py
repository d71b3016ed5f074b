"""The end of a cell or its kernel: timeout, interrupt, death. Each is reported once, and the next cell works."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.events import ErrorObservation, IPythonRunCellAction
from runtime.plugins.jupyter import kernel as kernel_module
from runtime.plugins.jupyter.plugin import FRESH
from runtime.server.processes import session_members
from tests.runtime.conftest import has_ended
from tests.runtime.plugins.kernels import Cells, cells

DEAF = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(100)"
KILLED = "it was killed by SIGKILL, as when memory runs out"


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Cells]:
    async with cells(tmp_path) as made:
        yield made


async def test_cell_is_interrupted_at_its_timeout_and_its_output_kept(kernel: Cells) -> None:
    said = await kernel.says("x = 1; print('so far'); import time; time.sleep(1000)", timeout=0.3)
    assert said.startswith("so far\n-----")
    assert said.endswith("KeyboardInterrupt:\n[Execution timed out (0.3 seconds).]")
    assert await kernel.says("x") == "1"


@pytest.mark.parametrize(
    "busy",
    [
        "import time; time.sleep(1000)",
        "while True: pass",
        "import subprocess; subprocess.run(['sleep', '1000'])",
        "import os; os.system('sleep 1000')",
        "!sleep 1000",
        "while True: print('x' * 1000)",
    ],
)
async def test_cancelled_cell_is_interrupted_and_its_kernel_kept(kernel: Cells, busy: str) -> None:
    await kernel.says("x = 1")
    running = await kernel.begins(busy)
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert await kernel.says("x") == "1"


async def test_interrupt_spares_processes_of_earlier_cells(kernel: Cells) -> None:
    await kernel.says("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
    await kernel.says("import time; time.sleep(1000)", timeout=0.1)
    assert await kernel.says("print(p.poll())") == "None"


async def test_cell_cancelled_immediately_ends(kernel: Cells) -> None:
    await kernel.says("x = 1")
    for _ in range(3):
        running = asyncio.create_task(kernel.says("import time; time.sleep(1000)"))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
    assert await kernel.says("x") == "1"


async def test_cell_interrupted_before_its_first_line_ends(kernel: Cells) -> None:
    """ipykernel gives no reply to it, for it catches that outside of the cell."""
    await kernel.says(
        "x, handlers = 1, get_ipython().kernel.shell_handlers\n"
        "whole = handlers['execute_request']\n"
        "async def interrupted(*parts):\n"
        "    handlers['execute_request'] = whole\n"
        "    raise KeyboardInterrupt\n"
        "handlers['execute_request'] = interrupted"
    )
    await kernel.says("import time; time.sleep(1000)", timeout=20)
    assert await kernel.says("x") == "1"


async def test_lost_reader_interrupts_the_cell(kernel: Cells) -> None:
    async def gone(frame: object) -> None:
        raise ConnectionResetError

    action = IPythonRunCellAction(code="x = 1\nprint('a')\nwhile True: pass")
    with pytest.raises(ConnectionResetError):
        await kernel.plugin.carry_out(action, 1, gone)
    assert await kernel.says("x") == "1"


@pytest.mark.parametrize("deaf", [DEAF, "sum(range(10**12))"])
async def test_kernel_that_ignores_interrupts_is_replaced_and_reported(kernel: Cells, deaf: str) -> None:
    await kernel.says("x = 1")
    said = await kernel.says(deaf, timeout=0.2)
    assert said == (
        "[Execution timed out (0.2 seconds).]\n"
        f"[The Python kernel ended while this cell ran: it did not obey an interrupt, and was killed. {FRESH}]"
    )
    assert "NameError" in await kernel.says("x")


async def test_kernel_killed_after_a_cancelled_cell_is_reported_by_the_next(kernel: Cells) -> None:
    running = asyncio.create_task(kernel.says(DEAF.replace("while", "print('deaf', flush=True)\nwhile")))
    await kernel.watcher.sees(b"deaf")
    running.cancel()
    await asyncio.wait({running})
    assert await kernel.says("1") == (
        f"[The Python kernel had ended since the cell before: it did not obey an interrupt, and was killed. {FRESH}]\n1"
    )


@pytest.mark.parametrize(
    ("deadly", "how"),
    [
        ("import os; os.kill(os.getpid(), 9)", KILLED),
        ("import os; os._exit(3)", "it ended with exit code 3"),
        ("import os; os.abort()", "it was killed by SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "it was killed by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "it was killed by SIGTERM"),
    ],
)
async def test_death_of_a_kernel_is_reported_once(kernel: Cells, deadly: str, how: str) -> None:
    said = await kernel.says(f"x = 1\n{deadly}", timeout=30)
    assert said.startswith(f"[The Python kernel ended while this cell ran: {how}")
    assert said.endswith(f". {FRESH}]")
    assert await kernel.says("1 + 1") == "2"
    assert "NameError" in await kernel.says("x")


async def test_output_before_the_death_of_a_kernel_is_kept(kernel: Cells) -> None:
    running = await kernel.begins("import time; time.sleep(1000)")
    os.kill(kernel.kernel.pid, signal.SIGKILL)
    assert await running == f"begun\n[The Python kernel ended while this cell ran: {KILLED}. {FRESH}]"


async def test_crash_reports_its_location(kernel: Cells) -> None:
    said = await kernel.says("import ctypes; ctypes.string_at(0)")
    assert "Fatal Python error: Segmentation fault" in said
    assert "in string_at" in said


async def test_death_between_two_cells_is_reported_by_the_second(kernel: Cells) -> None:
    await kernel.says("x = 1")
    os.kill(kernel.kernel.pid, signal.SIGKILL)
    await asyncio.wait({kernel.kernel.ended})
    assert await kernel.says("1") == f"[The Python kernel had ended since the cell before: {KILLED}. {FRESH}]\n1"
    assert await kernel.says("1") == "1"


async def test_spare_replaces_a_dead_kernel(kernel: Cells) -> None:
    await kernel.says("1")
    await kernel.plugin.pool.spare_is_ready()
    (spare,) = (pid for pid in children() if pid != kernel.kernel.pid)
    os.kill(kernel.kernel.pid, signal.SIGKILL)
    await asyncio.wait({kernel.kernel.ended})
    await kernel.says("1")
    assert kernel.kernel.pid == spare


async def test_dead_spare_is_not_used(kernel: Cells) -> None:
    await kernel.says("1")
    await kernel.plugin.pool.spare_is_ready()
    for pid in children():
        os.kill(pid, signal.SIGKILL)
        assert has_ended(pid)
    await asyncio.wait({kernel.kernel.ended})
    assert (await kernel.says("1 + 1")).endswith("\n2")


async def test_init_code_is_run_again_in_a_fresh_kernel(kernel: Cells) -> None:
    assert await kernel.says("n", kernel_init_code="n = 7") == "7"
    os.kill(kernel.kernel.pid, signal.SIGKILL)
    await asyncio.wait({kernel.kernel.ended})
    assert (await kernel.says("n", kernel_init_code="n = 7")).endswith("\n7")


async def test_child_processes_end_with_their_kernel(kernel: Cells) -> None:
    started = int(await kernel.says("import subprocess; subprocess.Popen(['sleep', '1000']).pid"))
    os.kill(kernel.kernel.pid, signal.SIGKILL)
    await asyncio.wait({kernel.kernel.ended})
    assert has_ended(started)


async def test_closing_leaves_no_processes(tmp_path: Path) -> None:
    async with cells(tmp_path) as kernel:
        await kernel.says("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
        sessions = children()
    assert not [pid for session in sessions for pid in session_members(session)]


class TestStart:
    async def test_kernel_killed_during_its_start_is_started_again(self, tmp_path: Path) -> None:
        made = Cells(tmp_path / "work")
        made.folder.mkdir()
        starting = asyncio.create_task(made.plugin.start())
        while not children():
            await asyncio.sleep(0)
        os.kill(children()[0], signal.SIGKILL)
        await starting
        assert await made.says("1") == "1"
        await made.plugin.aclose()

    async def test_kernel_that_hangs_at_start_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kernel_module, "START_TIMEOUT_S", 0.3)
        (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(1000)")
        (tmp_path / "work").mkdir()
        made = Cells(tmp_path / "work", PYTHONPATH=str(tmp_path))
        observation = await made.plugin.carry_out(IPythonRunCellAction(code="1"), 1, made.watcher.emit)
        assert observation == ErrorObservation(
            content="There is no Python kernel: it was not ready after 0 s. Do it with a command, or try again."
        )
        await made.plugin.aclose()
        assert children() == []

    async def test_failed_start_reports_the_kernels_stderr(self, tmp_path: Path) -> None:
        (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('no such thing\\n'); sys.exit(1)")
        (tmp_path / "work").mkdir()
        made = Cells(tmp_path / "work", PYTHONPATH=str(tmp_path))
        observation = await made.plugin.carry_out(IPythonRunCellAction(code="1"), 1, made.watcher.emit)
        assert "it ended with exit code 1; it said:\n" in observation.content
        assert "no such thing" in observation.content
        await made.plugin.aclose()

    async def test_sockets_are_private_and_messages_signed(self, kernel: Cells) -> None:
        folder = kernel.private / "k1"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "connection.json").stat().st_mode) == 0o600
        connection = kernel.kernel.connection
        assert connection["transport"] == "ipc"
        assert len(connection["key"]) == 64


class TestAbuse:
    async def test_unsigned_and_repeated_messages_are_dropped_and_counted(self, kernel: Cells) -> None:
        said = await kernel.says(
            "kernel = get_ipython().kernel; session = kernel.session; import copy\n"
            "parent = kernel.get_parent()\n"
            "forged = session.serialize(session.msg('stream', {'name': 'stdout', 'text': 'forged'}, parent))\n"
            "forged[1] = b'0' * 64\n"
            "twice = session.serialize(session.msg('stream', {'name': 'stdout', 'text': 'twice'}, parent))\n"
            "for message in (forged, twice, twice, [b'x'], [b'<IDS|MSG>', b'x']):\n"
            " kernel.iopub_socket.send_multipart(message)\n"
        )
        assert said == "twice"
        assert kernel.kernel.channels is not None
        assert kernel.kernel.channels.dropped == 4

    async def test_flood_of_displays_and_comms_is_limited(self, kernel: Cells) -> None:
        said = await kernel.says(
            "from comm import create_comm\n"
            "c = create_comm(target_name='x')\n"
            "for i in range(3000): display(i); c.send({'data': 'x' * 100})",
            timeout=60,
        )
        assert said.split("\n") == [str(i) for i in range(3000)]

    async def test_endless_flood_ends_at_the_timeout(self, kernel: Cells) -> None:
        said = await kernel.says("while True: display('x' * 1000)", timeout=1)
        assert said.endswith("KeyboardInterrupt:\n[Execution timed out (1 seconds).]") or "timed out" in said
        assert len(said) < 32_000
        assert await kernel.says("1") == "1"

    async def test_huge_traceback_and_result_are_truncated(self, kernel: Cells) -> None:
        said = await kernel.says("raise ValueError('x' * 50_000_000)")
        assert len(said) < 32_000
        assert said.startswith("-----")
        said = await kernel.says("'y' * 50_000_000")
        assert len(said) < 32_000
        assert said.startswith("'yyy")
        assert await kernel.says("print('z' * 20_000_000)")
        assert kernel.outputs.find(3).size_bytes == 20_000_001
        assert await kernel.says("1") == "1"

    async def test_invalid_utf8_is_replaced(self, kernel: Cells) -> None:
        said = await kernel.says(r"import os; _ = os.write(1, b'a\xff\x00b\n'); print('\ud800')")
        assert said.startswith("a�b")
        assert await kernel.says("1") == "1"

    async def test_cell_that_closes_its_output_does_not_affect_others(self, kernel: Cells) -> None:
        await kernel.says("import os, sys; os.close(1); os.close(2)")
        assert await kernel.says("print(1); 1 + 1") == "1\n2"
        await kernel.says("import sys; sys.stdout = sys.stderr = sys.displayhook = None", timeout=1)
        await kernel.says("1 + 1", timeout=1)


def children() -> list[int]:
    """The kernels of this process, as children of its main thread."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    found = []
    for pid in listed:
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended already
            if b"program.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found
