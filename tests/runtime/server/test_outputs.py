"""The output of commands is stored completely up to a limit, and can be read in parts."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from pathlib import Path

import pytest

from runtime.server.bash_session import BashSession
from runtime.server.outputs import HELD_BYTES, MARK_BYTES, PREFIX, READ_BYTES, OutputError, Outputs
from tests.runtime.conftest import Shell

MANY = 4 * MARK_BYTES


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(max_output_bytes=MANY, max_total_bytes=3 * MANY, max_outputs=5, folders=[str(tmp_path)])


class TestBytes:
    @pytest.mark.parametrize("size", [1, 3, 4096, 70_000])
    def test_bytes_are_those_that_the_program_wrote(self, outputs: Outputs, size: int) -> None:
        written = b"a\nb\r\nc\rd\n\n\r" * 10_000
        said = written.replace(b"\n", b"\r\n")
        output = outputs.begin()
        for at in range(0, len(said), size):
            output.feed(said[at : at + size])
        output.finish()
        assert Path(output.path).read_bytes() == written
        assert (output.size_bytes, output.lines, output.loss) == (len(written), written.count(b"\n"), "")

    def test_short_output_needs_no_file(self, outputs: Outputs) -> None:
        output = outputs.begin()
        output.feed(b"x" * HELD_BYTES)
        assert not output.is_written
        assert not os.path.exists(output.path)
        assert output.read(2, 5) == b"xxxxx"

    def test_output_files_are_private(self, outputs: Outputs) -> None:
        output = outputs.begin()
        output.feed(b"x" * (HELD_BYTES + 1))
        assert stat.S_IMODE(os.stat(output.path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(output.path)).st_mode) == 0o700

    def test_output_can_be_read_while_it_grows(self, outputs: Outputs) -> None:
        output = outputs.begin()
        for number in range(1, 100_000):
            output.feed(b"%d\r\n" % number)
            if number % 20_000 == 0:
                assert output.read(output.size_bytes - 6, 100) == b"%d\n" % number

    def test_one_read_is_limited(self, outputs: Outputs) -> None:
        output = outputs.begin()
        output.feed(b"x" * READ_BYTES)
        output.feed(b"x" * 10)
        assert len(output.read(0, 10**12)) == READ_BYTES


class TestLines:
    @pytest.mark.parametrize("piece", [7, 65_536])
    def test_lines_are_found_by_number(self, outputs: Outputs, piece: int) -> None:
        output = outputs.begin()
        data = b"".join(b"%d\r\n" % number for number in range(1, 150_001))
        for at in range(0, len(data), piece):
            output.feed(data[at : at + piece])
        assert output.lines == 150_000
        for line in (1, 2, 777, 51_234, 99_999, 149_999):
            assert output.read_lines(line, 2) == b"%d\n%d\n" % (line, line + 1)
        assert output.read_lines(150_000, 5) == b"150000\n"
        assert output.read_lines(150_001, 5) == b""

    @pytest.mark.parametrize("size", [9, 1000, 70_000, 10**6])
    def test_lines_are_found_at_any_offset(self, outputs: Outputs, size: int) -> None:
        """Lines of many lengths, so that the remembered places fall on all kinds of them."""
        written = [b"%d %s\n" % (number, b"x" * (number * 7919 % 3000)) for number in range(400)] + [b"no end"]
        data = b"".join(written)
        output = outputs.begin()
        for at in range(0, len(data), size):
            output.feed(data[at : at + size])
        for number in (*range(0, 400, 3), 399, 400):
            assert output.read_lines(number + 1, 2) == b"".join(written[number : number + 2])
        assert output.read_lines(1, 3) == b"".join(written[:3])
        assert (output.lines, output.size_bytes) == (400, len(data))

    def test_lines_of_a_short_output_are_found(self, outputs: Outputs) -> None:
        output = outputs.begin()
        output.feed(b"a\r\nb\r\nc")
        assert output.read_lines(2, 1) == b"b\n"
        assert output.read_lines(3, 10) == b"c"
        assert output.read_lines(4, 1) == b""

    def test_lines_without_end_are_cut(self, outputs: Outputs) -> None:
        output = outputs.begin()
        for _ in range(40):
            output.feed(b"x" * 65_536)
        assert output.read_lines(1, 1)[:10] == b"xxxxxxxxxx"
        assert len(output.read_lines(1, 1)) <= READ_BYTES


class TestBounds:
    def test_loss_beyond_the_limit_is_reported(self, outputs: Outputs) -> None:
        output = outputs.begin()
        for _ in range(3):
            output.feed(b"x" * (MANY // 2))
        assert output.size_bytes == MANY == os.path.getsize(output.path)
        assert output.loss == f"more than {MANY} bytes of a command are not kept"

    async def test_oldest_outputs_are_dropped(self, outputs: Outputs) -> None:
        kept = []
        for _ in range(3):
            await outputs.make_room()
            kept.append(outputs.begin())
            kept[-1].feed(b"x" * MANY)
            kept[-1].finish()
        assert [os.path.exists(output.path) for output in kept] == [True, True, True]
        await outputs.make_room()
        assert [os.path.exists(output.path) for output in kept] == [False, True, True]
        with pytest.raises(OutputError, match="output:1 is not kept any more"):
            outputs.find(1)
        assert outputs.find(2) is kept[1]

    async def test_number_of_outputs_is_limited(self, outputs: Outputs) -> None:
        for _ in range(9):
            await outputs.make_room()
            outputs.begin().finish()
        with pytest.raises(OutputError):
            outputs.find(4)
        assert outputs.find(5).number == 5

    async def test_unfinished_output_is_kept(self, outputs: Outputs) -> None:
        running = outputs.begin()
        for _ in range(9):
            await outputs.make_room()
            outputs.begin().finish()
        assert outputs.find(1) is running

    def test_unknown_output_is_reported(self, outputs: Outputs) -> None:
        with pytest.raises(OutputError, match=r"There is no output:7. The last one is output:0."):
            outputs.find(7)

    async def test_closing_removes_everything(self, outputs: Outputs, tmp_path: Path) -> None:
        outputs.begin().feed(b"x" * MANY)
        await outputs.aclose()
        assert list(tmp_path.iterdir()) == []


class TestLeftBehind:
    @pytest.fixture
    def abandoned(self, outputs: Outputs, tmp_path: Path) -> Path:
        folder = tmp_path / (PREFIX + "old")
        folder.mkdir()
        (folder / "1.txt").write_text("old")
        os.utime(folder, (0, 0))
        return folder

    async def test_folder_of_a_killed_server_is_removed(self, outputs: Outputs, abandoned: Path) -> None:
        await outputs.remove_abandoned()
        assert not abandoned.exists()

    async def test_foreign_folders_are_left_alone(self, outputs: Outputs, tmp_path: Path) -> None:
        output = outputs.begin()
        output.feed(b"x" * MANY)
        os.utime(os.path.dirname(output.path), (0, 0))
        (tmp_path / (PREFIX + "new")).mkdir()
        (tmp_path / "another").mkdir()
        os.symlink("/var", tmp_path / (PREFIX + "link"))
        before = sorted(tmp_path.iterdir())
        await Outputs(folders=[str(tmp_path)]).remove_abandoned()
        assert sorted(tmp_path.iterdir()) == before
        assert output.read(0, 1) == b"x"


class TestTrouble:
    def test_full_disk_is_reported(self, outputs: Outputs) -> None:
        output = outputs.begin()
        os.symlink("/dev/full", output.path)
        output.feed(b"x" * (HELD_BYTES + 1))
        output.feed(b"x" * (HELD_BYTES + 1))
        assert output.loss.startswith("it could not be kept: ")
        assert output.size_bytes == 0

    @pytest.mark.parametrize("what", ["gone", "link", "fifo"])
    def test_replaced_file_is_refused(self, outputs: Outputs, what: str) -> None:
        output = outputs.begin()
        output.feed(b"x" * (HELD_BYTES + 1))
        os.unlink(output.path)
        if what == "link":
            os.symlink("/etc/passwd", output.path)
        if what == "fifo":
            os.mkfifo(output.path)
        with pytest.raises(OutputError, match="output:1 cannot be read"):
            output.read(0, 10)

    async def test_commands_run_without_an_output_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        outputs = Outputs(folders=[str(tmp_path / "neither")])
        output = outputs.begin()
        output.feed(b"x" * (HELD_BYTES + 1))
        output.finish()
        assert (output.size_bytes, output.loss) == (0, "there is no folder for temporary files")
        assert output.read(0, 10) == b""
        (tmp_path / "none").mkdir()
        later = outputs.begin()
        later.feed(b"x" * (HELD_BYTES + 1))
        later.finish()
        assert (later.number, later.loss, Path(later.path).parent.parent) == (2, "", tmp_path / "none")
        await outputs.aclose()

    async def test_removed_folder_is_recreated(self, outputs: Outputs, tmp_path: Path) -> None:
        first = outputs.begin()
        open_before = set(os.listdir("/proc/self/fd"))
        os.rmdir(os.path.dirname(first.path))
        second = outputs.begin()
        assert second.number == 2
        assert os.path.dirname(second.path) != os.path.dirname(first.path)
        assert set(os.listdir("/proc/self/fd")) == open_before
        await outputs.aclose()
        await outputs.aclose()
        assert list(tmp_path.iterdir()) == []

    def test_lost_output_does_not_change(self, outputs: Outputs) -> None:
        output = outputs.begin()
        for _ in range(2):
            output.feed(b"x" * MANY)
        before = output.size_bytes
        output.feed(b"more")
        output.finish()
        assert (output.size_bytes, os.path.getsize(output.path)) == (before, before)


class TestOfTheShell:
    async def test_truncated_observation_names_the_stored_output(self, shell: Shell) -> None:
        observation = await shell.run("seq 1 100000")
        found = re.fullmatch(
            r"\n\[The command completed with exit code 0\.\]"
            r"\n\[The whole output is output:1 \(100000 lines, 588895 bytes\)\. "
            r"Read it a part at a time, such as with: sed -n '1,200p' (\S+)\]",
            observation.metadata.suffix,
        )
        assert found
        assert (await shell.run(f"sed -n '50000,50001p' {found[1]}")).content == "50000\n50001"

    async def test_stored_bytes_are_those_of_the_command(self, shell: Shell, tmp_path: Path) -> None:
        observation = await shell.run("head -c 3000000 /dev/urandom | tee f")
        written = Path(shell.session.outputs.find(1).path).read_bytes()
        assert hashlib.sha256(written).digest() == hashlib.sha256((tmp_path / "f").read_bytes()).digest()
        assert "output:1" in observation.metadata.suffix

    async def test_output_reported_in_parts_is_stored_once(self, shell: Shell) -> None:
        await shell.run("seq 1 20000; read x; seq 20001 40000")
        observation = await shell.run("", timeout=0.1)
        assert "output:" not in observation.metadata.suffix
        observation = await shell.run("\n", is_input=True)
        assert "[The whole output is output:1 (40000 lines, " in observation.metadata.suffix

    async def test_each_command_has_one_output(self, shell: Shell) -> None:
        await shell.run("echo one")
        await shell.run("true")
        await shell.run("echo two; exit 3")
        await shell.run("echo three")
        found = [shell.session.outputs.find(number).read(0, 100) for number in (1, 2, 3)]
        assert found == [b"one\n", b"two\n", b"three\n"]

    async def test_partly_stored_output_says_so(self, tmp_path: Path) -> None:
        session = BashSession(str(tmp_path), outputs=(few := Outputs(max_output_bytes=100_000)))
        await session.start()
        assert Path(f"/proc/{session.pid}/comm").read_text() == "bash\n"
        shell = Shell(session)
        observation = await shell.run("seq 1 100000")
        found = re.search(
            r"\[All that was kept of the output is output:1 \(\d+ lines, 100000 bytes; "
            r"more than 100000 bytes of a command are not kept\)\. Read it .* (\S+)\]$",
            observation.metadata.suffix,
        )
        assert found
        assert (await shell.run(f"wc -c <{found[1]}")).content == "100000"
        await session.aclose()
        await few.aclose()

    async def test_output_that_could_not_be_stored_says_so(self, shell: Shell) -> None:
        await shell.run("echo one")
        folder = os.path.dirname(shell.session.outputs.find(1).path)
        await shell.run(f"echo begun; read x; rm -r {folder}; seq 1 100000")
        observation = await shell.run("\n", is_input=True)
        lost = "\n[What is not shown of the output is lost: it could not be kept: No such file or directory.]"
        assert observation.metadata.suffix.endswith(lost)
        assert observation.content.endswith("\n100000")
        observation = await shell.run("seq 1 100000")
        assert "[The whole output is output:3 (100000 lines, " in observation.metadata.suffix
