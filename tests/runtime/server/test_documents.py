"""Office files and PDFs are read as Markdown where the extra is installed, and refused with its name where not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from core.events import ErrorObservation, FileReadAction, FileReadObservation, FileReadSource, Observation
from runtime.server import documents
from runtime.server.documents import LIBRARY_MISSING
from runtime.server.file_actions import Files
from tests.blocking import ROOT
from tests.machine import REQUIREMENTS
from tests.runtime.conftest import Watcher

OFFICE = "http://schemas.openxmlformats.org"
RELATIONS = f"{OFFICE}/package/2006/relationships"
PARTS = f"{OFFICE}/officeDocument/2006/relationships"
VND = "application/vnd.openxmlformats-officedocument"


def package(path: Path, parts: dict[str, str], types: dict[str, str], relations: dict[str, dict[str, str]]) -> None:
    """An office file: its parts, their types, and for each owner what its relations lead to, by their kind."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{VND}.{kind}+xml"/>' for name, kind in types.items()
    )
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    default = f'<Default Extension="rels" ContentType="{rels}"/><Default Extension="xml" ContentType="text/xml"/>'
    content_types = f'<Types xmlns="{OFFICE}/package/2006/content-types">{default}{overrides}</Types>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", content_types)
        for owner, leads_to in relations.items():
            targets = "".join(
                f'<Relationship Id="rId{number}" Type="{PARTS}/{kind}" Target="{target}"/>'
                for number, (kind, target) in enumerate(leads_to.items(), 1)
            )
            folder, _, name = owner.rpartition("/")
            place = f"{folder}/_rels/{name}.rels".lstrip("/")
            file.writestr(place, f'<Relationships xmlns="{RELATIONS}">{targets}</Relationships>')
        for name, text in parts.items():
            file.writestr(name, text)


def docx(path: Path) -> None:
    w = f'xmlns:w="{OFFICE}/wordprocessingml/2006/main"'
    heading = '<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>A heading</w:t></w:r></w:p>'
    row = (
        "<w:tr>"
        + "".join(f"<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>" for cell in ("one", "a|b"))
        + "</w:tr>"
    )
    grid = "<w:tblPr/><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid>"
    body = f"{heading}<w:p><w:r><w:t>Some text.</w:t></w:r></w:p><w:tbl>{grid}{row}</w:tbl>"
    style = '<w:style w:type="paragraph" w:styleId="Heading2"><w:name w:val="heading 2"/></w:style>'
    package(
        path,
        {
            "word/document.xml": f"<w:document {w}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f"<w:styles {w}>{style}</w:styles>",
        },
        {"word/document.xml": "wordprocessingml.document.main", "word/styles.xml": "wordprocessingml.styles"},
        {"": {"officeDocument": "word/document.xml"}, "word/document.xml": {"styles": "styles.xml"}},
    )


def xlsx(path: Path, rows: int = 1) -> None:
    main = f'xmlns="{OFFICE}/spreadsheetml/2006/main" xmlns:r="{PARTS}"'
    cells = '<c t="inlineStr"><is><t>name</t></is></c><c><v>42</v></c>'
    data = "".join(f'<row r="{number}">{cells}</row>' for number in range(1, rows + 1))
    package(
        path,
        {
            "xl/workbook.xml": f"<workbook {main}><sheets>"
            '<sheet name="Sums" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/sheet1.xml": f"<worksheet {main}><sheetData>{data}</sheetData></worksheet>",
        },
        {"xl/workbook.xml": "spreadsheetml.sheet.main", "xl/sheet1.xml": "spreadsheetml.worksheet"},
        {"": {"officeDocument": "xl/workbook.xml"}, "xl/workbook.xml": {"worksheet": "sheet1.xml"}},
    )


def pptx(path: Path) -> None:
    p = f'xmlns:p="{OFFICE}/presentationml/2006/main" xmlns:a="{OFFICE}/drawingml/2006/main" xmlns:r="{PARTS}"'
    text = "<p:txBody><a:bodyPr/><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:txBody>"
    kinds = (("The title", '<p:ph type="title"/>'), ("A point", ""))
    shapes = "".join(
        f'<p:sp><p:nvSpPr><p:cNvPr id="{n}" name="s"/><p:cNvSpPr/><p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:spPr/>'
        f"{text.format(words)}</p:sp>"
        for n, (words, kind) in enumerate(kinds, 2)
    )
    group = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    package(
        path,
        {
            "ppt/presentation.xml": f'<p:presentation {p}><p:sldIdLst><p:sldId id="256" r:id="rId1"/></p:sldIdLst>'
            "</p:presentation>",
            "ppt/slide1.xml": f"<p:sld {p}><p:cSld><p:spTree>{group}{shapes}</p:spTree></p:cSld></p:sld>",
        },
        {"ppt/presentation.xml": "presentationml.presentation.main", "ppt/slide1.xml": "presentationml.slide"},
        {"": {"officeDocument": "ppt/presentation.xml"}, "ppt/presentation.xml": {"slide": "slide1.xml"}},
    )


def pdf(path: Path, words: str = "Hello from a page") -> None:
    stream = f"BT /F1 24 Tf 72 720 Td ({escape(words)}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj%s endobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(data)
    path.write_bytes(data + b"xref\n0 6\n0000000000 65535 f \n" + table + end)


MAKERS: dict[str, tuple[Callable[[Path], None], str]] = {
    ".docx": (docx, "## A heading\n\nSome text.\n\n| one | a\\|b |\n| --- | --- |\n\n"),
    ".xlsx": (xlsx, "## Sums\n\n| name | 42 |\n| --- | --- |\n\n"),
    ".pptx": (pptx, "<!-- Slide number: 1 -->\n\n# The title\n\nA point\n\n"),
    ".pdf": (pdf, "Hello from a page\n\n\n\n\n"),
}


async def read(path: Path, source: FileReadSource, view_range: list[int] | None = None) -> Observation:
    files = Files(lambda: str(path.parent))
    return await files.read(
        FileReadAction(path=str(path), impl_source=source, view_range=view_range), 1, Watcher().emit
    )


@pytest.mark.documents
@pytest.mark.parametrize("kind", MAKERS)
async def test_document_is_read_as_markdown(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"Document{kind.upper()}"
    make, text = MAKERS[kind]
    make(path)
    assert await read(path, FileReadSource.DEFAULT) == FileReadObservation(path=str(path), content=text)
    viewed = await read(path, FileReadSource.OH_ACI, [1, 1])
    first = text.partition("\n")[0]
    assert viewed == FileReadObservation(
        path=str(path),
        content=f"Here's the result of running `cat -n` on {path}:\n     1\t{first}\n",
        impl_source=FileReadSource.OH_ACI,
    )
    refused = await read(path, FileReadSource.OH_ACI, [9999, 10000])
    assert "Its first element `9999` should be within the range of lines" in refused.content


async def test_reader_is_in_a_session_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no key of a terminal reaches it, and nothing that it does reaches the programs of one."""
    code = "import os; print(os.getsid(0) == os.getpid(), os.getcwd())"
    monkeypatch.setattr(documents, "start_command", lambda module, kind: [sys.executable, "-c", code])
    path = tmp_path / "document.pdf"
    path.write_bytes(b"%PDF-1.4")
    assert await documents.markdown(os.open(path, os.O_RDONLY), str(path)) == "True /\n"


@pytest.mark.parametrize("kind", MAKERS)
async def test_missing_extra_is_named(tmp_path: Path, kind: str) -> None:
    if not REQUIREMENTS["documents"]():
        pytest.skip("the extra is installed")
    path = tmp_path / f"f{kind}"
    MAKERS[kind][0](path)
    hint = f"To read {kind} files, install the extra: pip install 'handloom[documents]'."
    assert await read(path, FileReadSource.DEFAULT) == ErrorObservation(content=f"ERROR_BINARY_FILE {hint}")
    assert await read(path, FileReadSource.OH_ACI) == ErrorObservation(
        content=f"ERROR:\nFile validation failed for {path}: "
        f"File appears to be binary and this file type cannot be read or edited by this tool. {hint}"
    )


async def test_text_with_the_extension_of_a_document_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "f.docx").write_text("a text\n")
    assert (await read(tmp_path / "f.docx", FileReadSource.DEFAULT)).content == "a text\n"
    assert "a text" in (await read(tmp_path / "f.docx", FileReadSource.OH_ACI)).content


async def test_missing_document_is_refused_like_any_file(tmp_path: Path) -> None:
    path = tmp_path / "none.pdf"
    assert (await read(path, FileReadSource.DEFAULT)).content.startswith(f"File not found: {path}.")
    assert "does not exist" in (await read(path, FileReadSource.OH_ACI)).content
    os.mkfifo(path)
    assert "It is not a regular file" in (await read(path, FileReadSource.OH_ACI)).content


@pytest.mark.documents
async def test_damaged_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.docx"
    path.write_bytes(b"PK\x03\x04" + b"x" * 1000)
    assert (await read(path, FileReadSource.OH_ACI)).content == (
        f"ERROR:\nFile validation failed for {path}: It cannot be read as a .docx file."
    )


@pytest.mark.documents
async def test_document_that_expands_endlessly_is_stopped(tmp_path: Path) -> None:
    """A gigabyte of rows in a file of a megabyte."""
    path = tmp_path / "bomb.docx"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("[Content_Types].xml", "w", force_zip64=True) as part,
    ):
        for _ in range(1200):
            part.write(b"<" + b" " * 2**20)
    assert "It cannot be read as a .docx file" in (await read(path, FileReadSource.OH_ACI)).content


async def test_slow_conversion_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pdf(tmp_path / "f.pdf")
    monkeypatch.setattr(documents, "TIME_LIMIT_S", 0.0)
    assert (
        "took longer than 0 s. Convert it with a command instead."
        in (await read(tmp_path / "f.pdf", FileReadSource.OH_ACI)).content
    )


LIMITED = """
import resource, socket, subprocess
from runtime.server.documents import give_up_rights
give_up_rights()
for attempt in (
    lambda: socket.create_connection(("127.0.0.1", 1)),
    lambda: subprocess.run(["true"]),
    lambda: bytearray(2 * 1024**3),
):
    try:
        attempt()
        print("went through")
    except (PermissionError, MemoryError) as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the memory is not limited")
def test_converter_has_no_network_no_programs_and_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["PermissionError", "PermissionError", "MemoryError"]


LIMITS = """
import os, resource as r
from runtime.server.documents import give_up_rights
before = os.readlink("/proc/self/ns/net")
give_up_rights()
for what in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_CORE):
    print(*r.getrlimit(what))
print(before != os.readlink("/proc/self/ns/net"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the memory is not limited")
@pytest.mark.mount
def test_converter_has_limits_and_a_separate_network() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITS], capture_output=True, text=True, cwd=ROOT, check=True)
    *limits, has_own = done.stdout.splitlines()
    assert limits == [f"{most} {most}" for most in (2**30, 20, 16 * 2**20, 0)]
    assert has_own == "True"


@pytest.mark.parametrize(
    ("style", "line"),
    [
        ("Title", "# text"),
        ("Heading 1", "# text"),
        ("Heading 6", "###### text"),
        ("Heading 9", "###### text"),
        ("Heading", "text"),
        ("Heading x", "text"),
        ("List Bullet", "- text"),
        ("Normal", "text"),
    ],
)
def test_paragraph_is_formatted_by_its_style(style: str, line: str) -> None:
    assert documents._marked(style, "text") == line


def test_table_is_converted_to_markdown() -> None:
    rows = [["a", "b|c", "d\ne"], ["1", "2", "3"]]
    assert documents._table(rows) == "| a | b\\|c | d e |\n| --- | --- | --- |\n| 1 | 2 | 3 |"
    assert documents._table([["one"]]) == "| one |\n| --- |"
    assert documents._table([]) == ""


def test_missing_library_has_a_separate_exit_status(tmp_path: Path) -> None:
    pdf(tmp_path / "f.pdf")
    with (tmp_path / "f.pdf").open("rb") as file:
        command = [sys.executable, "-S", "-m", "runtime.server.documents", ".pdf"]
        alone = {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, stdin=file, capture_output=True, cwd=ROOT, env=alone, check=False)
    assert done.returncode == LIBRARY_MISSING, done.stderr
