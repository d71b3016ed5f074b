"""Everything else in the README and the manual is correct: settings, shortcuts, example files, links."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from core.agent.agent_files import read_folder
from core.security.analyzers.invariant import USER_FILE, read_policies
from core.security.policy import read_policy
from core.settings.config import Settings
from core.trust.hook_file import hooks_of
from tests.documents import TABLES
from tests.manual import settings_table
from tests.manual.pages import (
    AGENTS,
    DOCS,
    INLINE,
    README,
    REFERENCE,
    ROOT,
    Block,
    anchors,
    blocks,
    inline_codes,
    links,
    pages,
    prose,
    slug,
)
from tui.cli.command_line import FORMATS, parser
from tui.commands import BY_ID, COMMANDS, all_keys
from tui.prompt.slash_commands import BUILT_IN, SHIPPED

BLOCKS = [block for page in pages() for block in blocks(page)]
LANGUAGES = frozenset({"sh", "toml", "json", "markdown", "text"})
SITE = ROOT / ".ci" / "mkdocs.yml"
LEADER = re.compile(r"ctrl\+x (\S)")
OTHER_SLASHES = frozenset({"/name", "/review", "/port", "/continue", "/exit", "/tmp", "/workspace"})
"""Slash commands of example users, one that only editors offer, and folders."""


def _configuration(text: str, folder: Path) -> None:
    settings = Settings.model_validate(tomllib.loads(text))
    assert settings.keys.keys() <= BY_ID.keys()


def _policy(text: str, folder: Path) -> None:
    (folder / "policy.toml").write_text(text)
    policy = read_policy(folder / "policy.toml", name="policy.toml")
    assert policy.rules
    assert not policy.broken


def _hooks(text: str, folder: Path) -> None:
    found, problems = hooks_of(text)
    assert found
    assert not problems


def _invariant(text: str, folder: Path) -> None:
    assert read_policies(text, USER_FILE)


FILES: Mapping[str, Callable[[str, Path], None]] = {
    "config.toml": _configuration,
    "policy.toml": _policy,
    "hooks.toml": _hooks,
    USER_FILE: _invariant,
}
"""The files that TOML examples are, by the comment in their first line, and what reads them."""


def test_block_has_a_language_that_is_checked() -> None:
    assert not [block.place for block in BLOCKS if block.language not in LANGUAGES]


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "toml"], ids=lambda block: block.place
)
def test_toml_example_is_valid(block: Block, tmp_path: Path) -> None:
    first = block.text.partition("\n")[0]
    assert first.removeprefix("# ") in FILES, f"{block.place}: the first line names no file"
    FILES[first.removeprefix("# ")](block.text, tmp_path)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "json"], ids=lambda block: block.place
)
def test_json_example_is_valid(block: Block) -> None:
    assert json.loads(block.text)


def test_agent_example_loads(tmp_path: Path) -> None:
    (text,) = (block.text for block in BLOCKS if block.language == "markdown" and "\ntools: " in block.text)
    (tmp_path / "reviewer.md").write_text(text)
    found, problems = read_folder(tmp_path)
    assert [agent.name for agent in found] == ["Reviewer"]
    assert not problems


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_named_setting_exists(page: Path) -> None:
    known = settings_table.names()
    sections = {name for name in known if any(other.startswith(f"{name}.") for other in known if name)}
    for code in inline_codes(page):
        name = code.partition(" = ")[0]
        section, dot, field = name.rpartition(".")
        if dot and section in sections and re.fullmatch(r"[a-z_]+", field) and field not in ("json", "md", "toml"):
            assert name in known, f"there is no setting {name}"
        if match := re.fullmatch(r"\[([a-z.]+)(\.NAME)?\]", code):
            assert match[1] in known, f"there is no section {code}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_named_shortcut_exists(page: Path) -> None:
    keys = {key for command in COMMANDS for key in all_keys(command)}
    for code in inline_codes(page):
        for second in LEADER.findall(code):
            assert second.isdigit() or f"ctrl+x {second}" in keys, f"there is no ctrl+x {second}"
        if re.fullmatch(r"F\d+|(ctrl|alt|shift)\+\w+", code) and code != "ctrl+x":
            assert code.lower() in {key.lower() for key in keys}, f"there is no key {code}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_named_slash_command_exists(page: Path) -> None:
    for code in inline_codes(page):
        name = re.fullmatch(r"(/[a-z]+)( [^/]*)?", code)
        if name and name[1] not in OTHER_SLASHES and page.name != "action-server.md":
            assert name[1][1:] in {*BUILT_IN, *SHIPPED}, f"there is no command {name[1]}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_named_verb_or_option_exists(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for code in inline_codes(page):
        if not code.startswith("handloom "):
            continue
        verbs = [word for word in code.split()[1:] if re.fullmatch(r"[a-z]+", word)]
        with pytest.raises(SystemExit) as ended:
            parser().parse_args([*verbs[:2], "--help"])
        assert ended.value.code == 0, code
        help_ = capsys.readouterr().out
        for option in re.findall(r"--[a-z-]+", code):
            assert option in help_, f"{code}: there is no option {option}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_named_file_exists(page: Path) -> None:
    for path in paths_named(page):
        assert (ROOT / path).exists(), f"there is no {path}"


def paths_named(page: Path) -> list[str]:
    """Files and folders of the repository named in the prose; below a package's heading, those of its table."""
    found = []
    for section in re.split(r"^## ", prose(page), flags=re.MULTILINE):
        package = section.partition("\n")[0]
        for code in INLINE.findall(section):
            path = code.partition("::")[0]
            if re.match(r"(core|runtime|tui|tests|themes|docs|\.ci)/[\w./-]+$", path) and "NAME" not in path:
                found.append(path)
            elif package in ("core", "runtime", "tui") and re.fullmatch(r"\w+/|\w+\.py", path):
                found.append(f"{package}/{path}")
    return found


@pytest.mark.parametrize("page", [*pages(), *(DOCS / name for name in sorted(REFERENCE))], ids=lambda page: page.name)
def test_link_leads_to_an_existing_file_and_heading(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}, which has no such heading"


def test_site_has_every_page_once_and_loads_nothing_from_other_hosts() -> None:
    site = yaml.safe_load(SITE.read_text("utf-8"))
    listed = [page for entry in site["nav"] for value in entry.values() for page in _pages_in(value)]
    assert sorted(listed) == sorted(page.name for page in DOCS.glob("*.md"))
    assert site["theme"]["font"] is False
    assert "://" not in SITE.read_text("utf-8")


def _pages_in(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    assert isinstance(entry, list)
    return [page for below in entry for page in below.values()]


def test_manual_has_the_generated_pages() -> None:
    assert all(page.is_file() for page in TABLES)
    assert all((DOCS / name).is_file() for name in REFERENCE)


def test_export_formats_match_those_of_the_program() -> None:
    table = (ROOT / "docs" / "sessions.md").read_text().partition("| format | content |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == list(FORMATS)


def test_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150


def test_changelog_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert f"\n## [{version}]" in (DOCS / "changelog.md").read_text("utf-8")


def test_agents_md_names_existing_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"`make ([a-z-]+)", AGENTS.read_text("utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_anchors_are_those_of_mkdocs() -> None:
    assert slug("One message, end to end") == "one-message-end-to-end"
    assert slug("mcp.servers.NAME") == "mcpserversname"


HOOKS = runpy.run_path(str(ROOT / ".ci" / "mkdocs_hooks.py"))
"""The hooks that mkdocs loads; the file is not an importable module."""


def test_links_to_code_become_text_on_the_site() -> None:
    made = HOOKS["on_page_markdown"]("[a test](../tests/x.py) and [a page](models.md)", page=None)
    assert made == "a test and [a page](models.md)"


@pytest.mark.parametrize(
    "html", ['<script src="https://elsewhere.example/x.js">', "<link rel=x href=//elsewhere.example/x.css>"]
)
def test_site_that_loads_from_another_host_is_not_built(html: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="https://elsewhere.example/">a link</a><img src="demo.png">')
    HOOKS["on_post_build"](config={"site_dir": str(tmp_path)})
    (tmp_path / "page.html").write_text(html)
    with pytest.raises(SystemExit, match=r"elsewhere\.example"):
        HOOKS["on_post_build"](config={"site_dir": str(tmp_path)})
