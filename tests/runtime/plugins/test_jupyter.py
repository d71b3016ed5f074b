"""Cells in a real kernel: the model's text, live output, pictures, folders, and complete output."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.events import IPythonRunCellObservation
from core.secrets.command_secrets import injecting
from runtime.plugins.jupyter.cell_output import LATE_OUTPUT, MAX_IMAGE_CHARS, MAX_IMAGES, NO_OUTPUT, Cell
from runtime.server.outputs import Outputs
from tests.runtime.plugins.kernels import Cells, cells

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
"""One pixel."""


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Cells]:
    async with cells(tmp_path) as made:
        yield made


async def test_running_kernel_gets_changed_variables_with_its_next_cell(kernel: Cells) -> None:
    assert await kernel.says("import os; print(os.environ.get('COLOUR'))") == "None"
    kernel.environment.change({"COLOUR": "it's\nblue"})
    assert await kernel.says("print(repr(os.environ['COLOUR']))") == repr("it's\nblue")
    kernel.environment.change({"COLOUR": None})
    assert await kernel.says("print(os.environ.get('COLOUR'))") == "None"


class TestText:
    async def test_cell_reports_output_displays_and_result(self, kernel: Cells) -> None:
        observation = await kernel.run("print('a'); x = 5; display(x); x + 1")
        assert observation == IPythonRunCellObservation(code="print('a'); x = 5; display(x); x + 1", content="a\n5\n6")
        assert await kernel.says("x") == "5"

    async def test_cell_without_output_reports_success(self, kernel: Cells) -> None:
        assert await kernel.says("x = 1") == NO_OUTPUT == "[Code executed successfully with no output]"

    async def test_error_is_a_traceback_without_colours(self, kernel: Cells) -> None:
        said = await kernel.says("print('before', end='')\n1/0")
        assert said.startswith("before\n-----")
        assert said.endswith("ZeroDivisionError: division by zero")
        assert "----> 2 1/0" in said
        assert "\x1b" not in said

    async def test_exception_that_ended_the_cell_is_reported(self, kernel: Cells) -> None:
        for code, exception in (
            ("1/0", "ZeroDivisionError: division by zero"),
            ("raise ValueError('one\\ntwo')", "ValueError: one"),
            ("raise KeyError", "KeyError"),
            ("x = = 1", "SyntaxError: invalid syntax (2376097402.py, line 1)"),
            ("try:\n    1/0\nexcept ZeroDivisionError as error:\n    print(error)", ""),
        ):
            observation = await kernel.run(code)
            assert isinstance(observation, IPythonRunCellObservation)
            said = re.sub(r"\d+\.py", "2376097402.py", observation.exception)
            assert (said, observation.success) == (exception, not exception)

    async def test_colours_and_overwritten_text_are_removed(self, kernel: Cells) -> None:
        assert await kernel.says(r"print('\x1b[31mred\x1b[0m'); print(' 10%\r 99%')") == "red\n 99%"

    async def test_folder_and_interpreter_come_last(self, kernel: Cells) -> None:
        assert await kernel.says("1", include_extra=True) == (
            f"1\n[Jupyter current working directory: {kernel.folder}]\n[Jupyter Python interpreter: {sys.executable}]"
        )

    async def test_input_is_refused_with_a_message(self, kernel: Cells) -> None:
        said = await kernel.says("input('name? ')")
        assert "raw_input was called, but this frontend does not support input requests." in said

    async def test_output_of_child_processes_is_in_order(self, kernel: Cells) -> None:
        code = (
            "import os, sys\nfor i in range(30):\n print(i)\n os.system(f'echo -{i}')\n print(f'e{i}', file=sys.stderr)"
        )
        assert (await kernel.says(code)).split() == [f"{sign}{i}" for i in range(30) for sign in ("", "-", "e")]

    async def test_output_redirected_to_sys_stdout_is_included(self, kernel: Cells) -> None:
        code = "import subprocess, sys; print('a'); _ = subprocess.run(['echo', 'b'], stdout=sys.stdout)"
        assert await kernel.says(code) == "a\nb"

    async def test_late_output_is_reported_with_the_next_cell(self, kernel: Cells) -> None:
        for name in ("go", "told"):
            os.mkfifo(kernel.folder / name)
        await kernel.says(
            "import threading\n"
            "def late():\n open('go').read(); print('late', flush=True); open('told', 'w').close()\n"
            "threading.Thread(target=late).start()"
        )
        await asyncio.to_thread((kernel.folder / "go").write_text, "")
        await asyncio.to_thread((kernel.folder / "told").read_text)
        assert await kernel.says("1") == f"{LATE_OUTPUT}late\n1"
        assert await kernel.says("1") == "1"

    async def test_output_of_many_prints_is_complete(self, kernel: Cells) -> None:
        said = await kernel.says("for i in range(3000): print(i)")
        assert said.split("\n") == [str(i) for i in range(3000)]

    async def test_long_output_is_truncated_and_stored(self, kernel: Cells) -> None:
        said = await kernel.says("for i in range(20_000): print('line', i)")
        assert len(said) < 31_000
        assert said.startswith("line 0\nline 1\n")
        assert "[... Observation truncated due to length ...]" in said
        kept = kernel.outputs.find(1)
        assert f"[The whole output is output:1 (20000 lines, {kept.size_bytes} bytes)." in said
        assert kept.read_lines(10_001, 1) == b"line 10000\n"


class TestLive:
    async def test_output_is_shown_while_the_cell_runs(self, kernel: Cells) -> None:
        os.mkfifo(kernel.folder / "pipe")
        running = await kernel.begins("print(open('pipe').read())")
        assert not running.done()
        await asyncio.to_thread((kernel.folder / "pipe").write_text, "go on")
        assert await running == "begun\ngo on"
        assert kernel.watcher.shown == b"begun\r\ngo on\r\n"

    async def test_flushed_output_is_shown_while_the_interpreter_is_held(self, kernel: Cells) -> None:
        for _ in range(20):  # without the wait in `flush`, one in ten is not shown
            await kernel.says("import sys; sys.setswitchinterval(1e-6)")
            kernel.watcher.frames.clear()
            running = await kernel.begins("sum(range(10**12))")
            os.kill(kernel.kernel.pid, signal.SIGKILL)
            await running

    async def test_slow_reader_makes_the_cell_wait_and_loses_nothing(self, kernel: Cells) -> None:
        reads = asyncio.Event()
        emit = kernel.watcher.emit

        async def slowly(frame: object) -> None:
            await reads.wait()
            await emit(frame)  # type: ignore[arg-type]

        kernel.watcher.emit = slowly  # type: ignore[method-assign]
        running = asyncio.create_task(kernel.says("for i in range(300): print('x' * 10_000)"))
        done, _ = await asyncio.wait({running}, timeout=0.5)
        assert not done
        reads.set()
        await running
        assert kernel.watcher.shown.count(b"x") == 3_000_000


class TestPictures:
    async def test_figures_are_returned_as_images(self, kernel: Cells) -> None:
        observation = await kernel.run("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])")
        assert "<Figure size 640x480 with 1 Axes>" in observation.content
        assert observation.image_urls is not None
        (url,) = observation.image_urls
        assert url.startswith("data:image/png;base64,")
        assert base64.b64decode(url.partition(",")[2]).startswith(b"\x89PNG")

    async def test_figure_is_printed_with_its_words(self, kernel: Cells) -> None:
        drawing = """
import matplotlib.pyplot as plt
_, (above, below) = plt.subplots(2)
above.plot([1, 2], label="measured")
above.set(title="Voltage\\nover time", xlabel="t in s", ylabel="U in V", xlim=(0, 10), ylim=(-1.5, 1))
_ = plt.suptitle("All")
"""
        assert (await kernel.run(drawing)).content.splitlines()[-2:] == [
            '  "All"',
            '  "Voltage over time"; x: "t in s" from 0 to 10; y: "U in V" from -1.5 to 1; series: "measured"',
        ]

    async def test_figure_that_a_cell_broke_is_printed_without_words(self, kernel: Cells) -> None:
        broken = "import matplotlib.pyplot as plt\n_ = plt.title('a').__class__.get_text = None"
        assert "<Figure size 640x480 with 1 Axes>" in (await kernel.run(broken)).content

    async def test_other_representations_are_shown_as_text(self, kernel: Cells) -> None:
        observation = await kernel.run(
            "from IPython.display import display, HTML, SVG, Javascript\n"
            "display(HTML('<b>x</b>'), SVG('<svg></svg>'), Javascript('alert(1)'))"
        )
        assert observation.image_urls is None
        assert [line.split()[0] for line in observation.content.splitlines()] == [
            "<IPython.core.display.HTML",
            "<IPython.core.display.SVG",
            "<IPython.core.display.Javascript",
        ]

    async def test_invalid_or_too_many_images_are_left_out_and_counted(self, kernel: Cells) -> None:
        shown = f"display({{'image/png': '{PNG}', 'text/plain': 'p'}}, raw=True)"
        observation = await kernel.run(
            f"for _ in range({MAX_IMAGES + 1}): {shown}\n"
            "display({'image/png': 'no base64!', 'text/plain': 'q'}, raw=True)\n"
            f"display({{'image/jpeg': '{PNG}', 'text/plain': 'r'}}, raw=True)"
        )
        assert observation.image_urls == [f"data:image/png;base64,{PNG}"] * MAX_IMAGES
        assert observation.content.endswith("p\nq\nr\n[3 more images are not shown: too many, too large, or damaged.]")


class TestPlace:
    async def test_kernel_follows_the_shell_and_keeps_its_own_changes(self, kernel: Cells) -> None:
        assert await kernel.says("import os; os.getcwd()") == f"'{kernel.folder}'"
        (kernel.folder / "it's below").mkdir()
        kernel.cwd = str(kernel.folder / "it's below")
        said = await kernel.says("os.getcwd()", include_extra=True)
        assert said.splitlines()[:2] == [repr(kernel.cwd), f"[Jupyter current working directory: {kernel.cwd}]"]
        assert "[Jupyter current working directory: /]" in await kernel.says("os.chdir('/')", include_extra=True)
        assert await kernel.says("os.getcwd()") == "'/'"

    async def test_workspace_modules_can_be_imported_without_breaking_the_kernel(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "json.py").write_text("raise SystemExit('mine')")
        (tmp_path / "work" / "ours.py").write_text("answer = 42")
        made = Cells(tmp_path / "work")
        await made.plugin.start()
        assert await made.says("import ours; ours.answer") == "42"
        await made.plugin.aclose()

    async def test_workspace_modules_do_not_replace_the_standard_library(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        for name in ("statistics", "mine"):
            (tmp_path / "work" / f"{name}.py").write_text("mean = lambda numbers: 'of the workspace'\n")
        made = Cells(tmp_path / "work", PYTHONPATH=str(tmp_path / "work"))
        assert await made.says("import statistics, mine; print(statistics.mean([1, 3]), mine.mean([]))") == (
            "2 of the workspace"
        )
        await made.plugin.aclose()

    async def test_nothing_is_left_in_the_home_folder(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()
        async with cells(tmp_path, HOME=str(home)) as kernel:
            await kernel.says("import matplotlib.pyplot as plt; _ = plt.plot([1])")
            assert await kernel.says("get_ipython().history_manager.enabled") == "False"
        assert list(home.rglob("*")) == []

    async def test_kernel_leaves_no_files_in_the_servers_folder(self, tmp_path: Path) -> None:
        async with cells(tmp_path) as kernel:
            await kernel.says("1")
            await kernel.plugin.pool.spare_is_ready()
            folders = {path.name for path in kernel.private.iterdir()}
            assert len([name for name in folders if re.fullmatch(r"k\d+", name)]) == 2, "the kernel and a spare one"
        assert {path.name for path in kernel.private.iterdir()}.isdisjoint(folders - {"matplotlib"})

    async def test_kernel_has_the_users_umask(self, kernel: Cells) -> None:
        assert await kernel.says("os = __import__('os'); m = os.umask(0); os.umask(m); oct(m)") == "'0o22'"

    async def test_init_code_is_run_once_in_a_kernel(self, kernel: Cells) -> None:
        init = "n = globals().get('n', 0) + 1; print('not shown')"
        assert await kernel.says("n", kernel_init_code=init) == "1"
        assert await kernel.says("n", kernel_init_code=init) == "1"
        assert await kernel.says("2", kernel_init_code="1/0") == (
            "2\n[The kernel's init code failed: ZeroDivisionError: division by zero]"
        )


def test_server_does_not_import_jupyter_at_start() -> None:
    listing = "import sys, runtime.plugins.jupyter.plugin, runtime.plugins.agent_skills.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout
    packages = {name.partition(".")[0] for name in loaded.split()}
    assert packages.isdisjoint({"zmq", "jupyter_client", "ipykernel", "IPython", "tornado", "traitlets"})


class TestLentSecrets:
    async def test_secrets_exist_only_during_their_cell(self, kernel: Cells) -> None:
        with injecting({"TOKEN": "tk-77\n'x' ü"}):
            assert await kernel.says("import os; print(repr(os.environ['TOKEN']))") == repr("tk-77\n'x' ü")
        assert await kernel.says("print(os.environ.get('TOKEN'))\n!echo \"[$TOKEN]\"") == "None\n[]"
        assert (
            await kernel.says("print(sorted(name for name in globals() if 'lent' in name or 'pipe' in name))") == "[]"
        )

    async def test_secret_values_are_in_no_stored_code(self, kernel: Cells) -> None:
        with injecting({"TOKEN": "tk-77-value"}):
            await kernel.says("import os; os.environ['TOKEN'] and None")
        looks = "import gc, linecache; 'tk-77-val' + 'ue' in repr([linecache.cache, get_ipython().user_ns.get('In')])"
        assert await kernel.says(looks) == "False"

    async def test_secrets_are_removed_after_errors_and_interrupts(self, kernel: Cells) -> None:
        with injecting({"TOKEN": "tk-77-value"}):
            assert "ZeroDivisionError" in await kernel.says("1/0")
        assert await kernel.says("import os; print(os.environ.get('TOKEN'))") == "None"
        with injecting({"TOKEN": "tk-77-value"}):
            running = await kernel.begins("import time; time.sleep(60)")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert await kernel.says("import os; print(os.environ.get('TOKEN'))") == "None"


def displayed(picture: str) -> dict[str, Any]:
    return {"msg_type": "display_data", "content": {"data": {"image/png": picture}}}


def test_total_size_of_images_is_limited() -> None:
    large = base64.b64encode(base64.b64decode(PNG) + bytes(MAX_IMAGE_CHARS // 4)).decode()
    cell = Cell(1, Outputs())
    for picture in (large, large, large, PNG):
        cell.keep(displayed(picture), is_mine=True)
    assert 2 * len(large) < MAX_IMAGE_CHARS < 3 * len(large)
    assert cell.image_urls == [f"data:image/png;base64,{picture}" for picture in (large, large, PNG)]
    assert cell.content().endswith("[1 more images are not shown: too many, too large, or damaged.]")
    cell.close()
