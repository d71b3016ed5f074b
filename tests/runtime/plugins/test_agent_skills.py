"""The skills print exactly what V0's print, and a kernel has them and nothing else of Handloom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.plugin_requirements import PluginError
from runtime.plugins.agent_skills import agentskills, plugin
from runtime.plugins.agent_skills.agentskills import file_reader
from tests.runtime.conftest import place
from tests.runtime.plugins.kernels import cells

Printed = pytest.CaptureFixture[str]


def numbered(first: int, last: int) -> str:
    return "".join(f"{number}|line {number}\n" for number in range(first, last + 1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "long.txt"
    path.write_text("".join(f"line {number}\n" for number in range(1, 301)))
    return path


class TestWindow:
    def test_file_is_opened_at_its_beginning(self, file: Path, capsys: Printed) -> None:
        agentskills.open_file(str(file))
        assert capsys.readouterr().out == (
            f"[File: {file} (300 lines total)]\n(this is the beginning of the file)\n{numbered(1, 100)}"
            "(200 more lines below)\n[Use `scroll_down` to view the next 100 lines of the file!]\n"
        )

    def test_file_is_opened_around_a_line(self, file: Path, capsys: Printed) -> None:
        agentskills.open_file(str(file), 150, 10)
        assert capsys.readouterr().out == (
            f"[File: {file} (300 lines total)]\n(144 more lines above)\n{numbered(145, 155)}"
            "(145 more lines below)\n[Use `scroll_down` to view the next 100 lines of the file!]\n"
        )

    def test_window_scrolls_and_jumps_to_a_line(self, file: Path, capsys: Printed) -> None:
        agentskills.open_file(str(file))
        capsys.readouterr()
        header = f"[File: {file} (300 lines total)]\n"
        agentskills.scroll_down()
        assert capsys.readouterr().out == (
            f"{header}(100 more lines above)\n{numbered(101, 201)}(99 more lines below)\n"
        )
        agentskills.goto_line(300)
        assert capsys.readouterr().out == (
            f"{header}(200 more lines above)\n{numbered(201, 300)}(this is the end of the file)\n"
        )
        agentskills.scroll_up()
        assert capsys.readouterr().out == (
            f"{header}(200 more lines above)\n{numbered(201, 300)}(this is the end of the file)\n"
        )

    def test_errors_are_printed(self, file: Path, capsys: Printed, tmp_path: Path) -> None:
        agentskills.open_file("/no/such")
        agentskills.open_file(str(file), 301)
        agentskills.goto_line(0)
        file.unlink()
        agentskills.scroll_down()
        assert capsys.readouterr().out == (
            "ERROR: File /no/such not found.\n"
            "ERROR: Line number must be between 1 and 300\n"
            "ERROR: Line number must be between 1 and 300.\n"
            "ERROR: No file open. Use the open_file function first.\n"
        )

    def test_empty_file_has_one_line(self, tmp_path: Path, capsys: Printed) -> None:
        (tmp_path / "empty").touch()
        agentskills.open_file(str(tmp_path / "empty"))
        assert capsys.readouterr().out == (
            f"[File: {tmp_path / 'empty'} (1 lines total)]\n(this is the beginning of the file)\n1|\n"
            "(this is the end of the file)\n"
        )


class TestSearch:
    def test_folder_search_skips_pipes_and_hidden_files(self, tmp_path: Path, capsys: Printed) -> None:
        (tmp_path / "a.py").write_text("x = 1\n  needle = 2\n")
        (tmp_path / ".hidden").write_text("needle")
        (tmp_path / "binary").write_bytes(b"\xff\x00needle")
        os.mkfifo(tmp_path / "pipe")
        agentskills.search_dir("needle", str(tmp_path))
        out = capsys.readouterr().out
        assert out.startswith(f'[Found 2 matches for "needle" in {tmp_path}]\n')
        assert f"{tmp_path}/a.py (Line 2): needle = 2\n" in out
        assert out.endswith(f'[End of matches for "needle" in {tmp_path}]\n')
        agentskills.search_dir("nothing", str(tmp_path))
        agentskills.search_dir("x", "/no/such")
        assert capsys.readouterr().out == (
            f'No matches found for "nothing" in {tmp_path}\nERROR: Directory /no/such not found\n'
        )

    def test_too_many_files_are_only_counted(self, tmp_path: Path, capsys: Printed) -> None:
        for number in range(101):
            (tmp_path / f"{number}").write_text("needle")
        agentskills.search_dir("needle", str(tmp_path))
        assert capsys.readouterr().out == (
            f'More than 101 files matched for "needle" in {tmp_path}. Please narrow your search.\n'
        )

    def test_file_is_searched(self, file: Path, capsys: Printed) -> None:
        agentskills.search_file("line 30", str(file))
        agentskills.search_file("nothing", str(file))
        agentskills.search_file("x", "/no/such")
        assert capsys.readouterr().out == (
            f'[Found 2 matches for "line 30" in {file}]\nLine 30: line 30\nLine 300: line 300\n'
            f'[End of matches for "line 30" in {file}]\n[No matches found for "nothing" in {file}]\n'
            "ERROR: File /no/such not found.\n"
        )

    def test_file_is_found_by_its_name(self, file: Path, capsys: Printed) -> None:
        agentskills.find_file("long", str(file.parent))
        agentskills.find_file("nothing", str(file.parent))
        assert capsys.readouterr().out == (
            f'[Found 1 matches for "long" in {file.parent}]\n{file}\n[End of matches for "long" in {file.parent}]\n'
            f'[No matches found for "nothing" in {file.parent}]\n'
        )


class TestReaders:
    @pytest.mark.documents
    def test_word_and_powerpoint_files_are_read(self, tmp_path: Path, capsys: Printed) -> None:
        import docx
        import pptx

        document = docx.Document()
        document.add_paragraph("first")
        document.add_paragraph("second")
        document.save(str(tmp_path / "a.docx"))
        slides = pptx.Presentation()
        slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = "title"
        slides.save(str(tmp_path / "a.pptx"))
        agentskills.parse_docx(f"{tmp_path}/a.docx")
        agentskills.parse_pptx(f"{tmp_path}/a.pptx")
        assert capsys.readouterr().out == (
            f"[Reading DOCX file from {tmp_path}/a.docx]\n@@ Page 1 @@\nfirst\n\n@@ Page 2 @@\nsecond\n\n\n"
            f"[Reading PowerPoint file from {tmp_path}/a.pptx]\n@@ Slide 1 @@\ntitle\n"
        )

    @pytest.mark.documents
    def test_invalid_document_is_reported(self, file: Path, capsys: Printed) -> None:
        agentskills.parse_pptx(str(file))
        assert "\nError reading PowerPoint file: " in capsys.readouterr().out

    def test_missing_library_is_named_with_advice(
        self, file: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "docx", None)
        monkeypatch.setitem(sys.modules, "pylatexenc.latex2text", None)
        agentskills.parse_docx(str(file))
        agentskills.parse_latex(str(file))
        assert capsys.readouterr().out == (
            f"[Reading DOCX file from {file}]\n"
            "ERROR: DOCX files cannot be read here: docx is missing. "
            "Install it: pip install 'handloom[documents]'\n"
            f"[Reading LaTex file from {file}]\n"
            "ERROR: LaTex files cannot be read here: pylatexenc is missing. Install it: pip install pylatexenc\n"
        )

    def test_picture_is_not_described_without_its_library(
        self, file: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "openai", None)
        file_reader.parse_image(str(file))
        assert capsys.readouterr().out.startswith(f"[Reading image file from {file}]\nError with the request: ")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "shapes.py").write_text(
        "class Shape:\n    def area(self):\n        return 0\n\n\n"
        "class Square(Shape):\n    def area(self):\n        return squared(2)\n\n\n"
        "def squared(x):\n    return x * x\n"
    )
    (folder / "main.py").write_text("from src.shapes import Square\n\n\ndef run():\n    return Square().area()\n")
    (folder / "broken.py").write_text("def (:\n")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text("def test_it():\n    pass\n")
    monkeypatch.setenv("REPO_PATH", str(folder))
    return folder


@pytest.mark.usefixtures("repository")
class TestRepository:
    def test_dependencies_are_drawn_as_a_tree(self) -> None:
        assert agentskills.explore_tree_structure(["main.py"], traversal_depth=2) == (
            "main.py\n"
            "├── contains ── main.py:run\n"
            "│               ├── invokes ── src/shapes.py:Shape.area\n"
            "│               ├── invokes ── src/shapes.py:Square.area\n"
            "│               └── invokes ── src/shapes.py:Square\n"
            "└── imports ── src/shapes.py:Square\n"
            "               ├── contains ── src/shapes.py:Square.area\n"
            "               └── inherits ── src/shapes.py:Shape"
        )
        assert agentskills.explore_tree_structure(["src/shapes.py:squared"], "upstream", 1) == (
            "src/shapes.py:squared\n├── contains-by ── src/shapes.py\n└── invokes-by ── src/shapes.py:Square.area"
        )

    def test_unknown_entity_gives_candidates(self) -> None:
        said = agentskills.explore_tree_structure(["squared", "tests/test_it.py"])
        assert said.startswith(
            "The entity name `squared` is invalid. Based on your input, here are some candidate entities you might be "
            "referring to:\nfunction: `src/shapes.py:squared`\n"
        )
        assert "No results for the test entity: `tests/test_it.py`. Please do not include any test entities." in said

    def test_entity_is_shown_with_line_numbers(self) -> None:
        assert agentskills.get_entity_contents(["src/shapes.py:squared", "nothing"]) == (
            "##Searching for entity `src/shapes.py:squared`...\n### Search Result:\n"
            "Found function `src/shapes.py:squared`.\n"
            "Source: Exact match found for entity name `src/shapes.py:squared`.\n"
            "```\n11 | def squared(x):\n12 |     return x * x\n```\n\n\n"
            "##Searching for entity `nothing`...\n### Search Result:\n"
            "Invalid name. \n"
            'Hint: Valid entity name should be formatted as "file_path:QualifiedName" or just "file_path".'
        )

    def test_code_is_found_by_name_words_and_line(self) -> None:
        named = agentskills.search_code_snippets(["Square"])
        assert "Found class `src/shapes.py:Square`.\nSource: Match found for entity name `Square`.\n```\n6 |" in named
        by_words = agentskills.search_code_snippets(["return x * x somewhere"])
        assert "Source: Retrieved code content using keyword search (bm25)." in by_words
        by_line = agentskills.search_code_snippets(line_nums=[8], file_path_or_pattern="src/shapes.py")
        assert by_line.startswith('##Searching for term "src/shapes.py:line 8"...\n### Search Result:\nFound function')
        assert agentskills.search_code_snippets(["zzz"]).endswith("No locations found.")
        assert "No files found for file pattern 'x*'. Will search all files." in agentskills.search_code_snippets(
            ["run"], file_path_or_pattern="x*"
        )

    def test_nothing_is_written_into_the_repository(self, repository: Path) -> None:
        before = sorted(repository.rglob("*"))
        agentskills.search_code_snippets(["run"])
        assert sorted(repository.rglob("*")) == before


def told(answer: str) -> dict[str, object]:
    first, body, last = answer.split("\n")
    assert first.removeprefix("<oh_aci_output_") == last.removeprefix("</oh_aci_output_")
    found: dict[str, object] = json.loads(body)
    return found


def test_file_editor_returns_v0s_format(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    created = told(agentskills.file_editor("create", path, file_text="one\n"))
    assert created == {
        "output": f"File created successfully at: {path}",
        "error": None,
        "path": path,
        "prev_exist": False,
        "old_content": None,
        "new_content": "one\n",
        "formatted_output_and_error": f"File created successfully at: {path}",
    }
    assert told(agentskills.file_editor("str_replace", path, old_str="one", new_str="two"))["new_content"] == "two\n"
    assert told(agentskills.file_editor("undo_edit", path))["new_content"] == "one\n"
    refused = told(agentskills.file_editor("view", "a.txt"))
    assert str(refused["formatted_output_and_error"]).startswith("ERROR:\nInvalid `path` parameter: a.txt.")


def test_documentation_is_generated_from_the_functions() -> None:
    documentation = agentskills.documentation()
    assert documentation.startswith(
        "open_file(path: str, line_number: int | None = 1, context_lines: int | None = 100) -> None:\n"
        "    Open a file and print a window of its lines around a line."
    )
    heads = [line.partition("(")[0] for line in documentation.splitlines() if line and not line.startswith(" ")]
    assert [*heads, "file_editor"] == agentskills.__all__
    assert "parse_audio" not in heads


def test_media_skills_exist_if_the_key_is_set() -> None:
    listing = "import agentskills; print(*agentskills.__all__)"
    environ = {**os.environ, "PYTHONPATH": str(plugin.FOLDER), "OPENAI_API_KEY": "x"}
    names = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, env=environ, check=True)
    assert {"parse_audio", "parse_video", "parse_image"} <= set(names.stdout.split())


def test_skills_need_the_kernel_of_the_jupyter_plugin(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="needs the plugin 'jupyter'"):
        plugin.AgentSkillsPlugin(place(tmp_path))


async def test_kernel_has_the_skills_but_not_our_packages(tmp_path: Path) -> None:
    async with cells(tmp_path, skills=True) as kernel:
        (kernel.folder / "runtime").mkdir()
        (kernel.folder / "runtime" / "__init__.py").write_text("mine = 1")
        assert await kernel.says("find_file('nothing')") == '[No matches found for "nothing" in ./]'
        said = await kernel.says("import os; 'File created' in file_editor('create', os.path.abspath('b'), 'x')")
        assert said == "True"
        assert await kernel.says("import runtime; runtime.mine") == "1"
        heavy = "{'pydantic', 'aiohttp', 'openai', 'docx', 'pptx', 'pdfminer', 'core'}"
        assert await kernel.says(f"import sys; {heavy} & {{name.partition('.')[0] for name in sys.modules}}") == "set()"
