"""Parsing microagents and skills, and recalling them by a message."""

from __future__ import annotations

import pytest

from core.memory.frontmatter import FrontMatterError
from core.memory.library import PROJECT, YOURS, Found, Source, build_library
from core.memory.microagents import ASK_FOR, Use, parse_microagent, parse_skill
from core.trust.folder_survey import Kind, Piece

KNOWS = "---\ntriggers: [release, 发布]\n---\nReleases are made on Mondays."
ALSO = "---\nname: tagging\ntriggers:\n- release\n- tag\n---\nTags are signed."
INPUTS = "inputs:\n- name: version\n  description: which one\n- name: branch"
TASK = f"---\nname: port\n{INPUTS}\n---\nPort ${{version}} to ${{branch}}."
SKILL = "---\nname: pdf-forms\ndescription: Fills in PDF forms.\n---\nRun fill.py."


def agent(text: str, path: str = ".openhands/microagents/a.md") -> Piece:
    return Piece(Kind.MICROAGENT, path, text)


def skill(text: str, path: str = ".handloom/skills/pdf-forms/SKILL.md") -> Piece:
    return Piece(Kind.SKILL, path, text)


def test_kind_of_a_microagent_follows_from_its_fields() -> None:
    base = ".openhands/microagents"
    assert parse_microagent(agent("Always."), PROJECT, base).use is Use.ALWAYS
    named = agent("---\ntype: repo\nagent: CodeActAgent\n---\nAlways.")
    assert parse_microagent(named, PROJECT, base).use is Use.ALWAYS
    knows = parse_microagent(agent(KNOWS, f"{base}/deep/notes.md"), PROJECT, base)
    assert (knows.use, knows.name, knows.triggers) == (Use.TRIGGERED, "deep-notes", ("release", "发布"))
    task = parse_microagent(agent(TASK), PROJECT, base)
    assert (task.use, task.triggers, [one.name for one in task.inputs]) == (Use.TASK, ("/port",), ["version", "branch"])


@pytest.mark.parametrize(
    "text",
    ["---\nname: a\n---\n", "---\nname: a b\n---\nx", "---\ninputs: x\n---\nx", "---\ninputs:\n- name: a-b\n---\nx",
     "---\ntype: knowledge\n---\nx", "---\ntriggers: [{a: b}]\n---\nx"],
)  # fmt: skip
def test_broken_microagent_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterError):
        parse_microagent(agent(text), PROJECT)


def test_task_asks_for_missing_inputs() -> None:
    task = parse_microagent(agent(TASK), PROJECT)
    assert task.text_for("/port version=1.2 branch='old stable'") == "Port 1.2 to old stable."
    told = task.text_for("/port branch=main")
    assert told.startswith("Port ${version} to main.")
    assert told.endswith(ASK_FOR.format(names="version (which one)"))


def test_all_matching_microagents_are_used_once() -> None:
    other = agent(ALSO, ".openhands/microagents/b.md")
    library = build_library([Source(PROJECT, [agent(KNOWS), other, skill(SKILL)])])
    found = library.recall("make a release with pdf-forms")
    assert found == [
        Found("a", "release", "Releases are made on Mondays."),
        Found("tagging", "release", "Tags are signed."),
        Found("pdf-forms", "pdf-forms", "Run fill.py."),
    ]
    given = [(one.name, one.content) for one in found[:2]]
    assert [one.name for one in library.recall("a release of pdf-forms", given)] == ["pdf-forms"]
    assert library.recall("nothing of that") == []


def test_broken_file_is_reported_with_its_line_and_others_load() -> None:
    broken = agent("---\na: 1\na: 2\n---\nx", ".openhands/microagents/broken.md")
    library = build_library([Source(PROJECT, [broken, agent(KNOWS)], ["one: problem"], name="here/")])
    assert [one.name for one in library.microagents] == ["a"]
    assert library.problems == ("here/one: problem", "here/.openhands/microagents/broken.md:3: a occurs twice")


def test_project_knowledge_comes_before_the_users() -> None:
    mine = Piece(Kind.MICROAGENT, "microagents/a.md", "---\ntriggers: [release]\n---\nMine.")
    library = build_library([Source(PROJECT, [agent(KNOWS)]), Source(YOURS, [mine], name="/home/")])
    assert [one.content for one in library.microagents] == ["Releases are made on Mondays."]
    assert len(library.problems) == 1


def test_only_name_and_description_of_a_skill_are_loaded_at_start() -> None:
    library = build_library([Source(PROJECT, [skill(SKILL)], sandbox_path=lambda path: f"/w/{path}")])
    told = library.skill_list()
    assert "- pdf-forms (/w/.handloom/skills/pdf-forms/SKILL.md): Fills in PDF forms." in told
    assert "fill.py" not in told
    assert "Its files are in /w/.handloom/skills/pdf-forms" in library.recall("pdf-forms please")[0].content


@pytest.mark.parametrize(
    "text",
    ["No front matter.", "---\nname: A B\ndescription: x\n---\nx", "---\nname: a\n---\nx",
     "---\nname: a\ndescription: x\n---\n", f"---\nname: a\ndescription: {'x' * 1025}\n---\nx"],
)  # fmt: skip
def test_skill_needs_a_name_and_a_description(text: str) -> None:
    with pytest.raises(FrontMatterError):
        parse_skill(skill(text), PROJECT)


def test_knowledge_is_limited() -> None:
    long = [agent(f"---\ntriggers: [go]\n---\n{'x' * 15_000}", f".openhands/microagents/{n}.md") for n in range(9)]
    rules = [Piece(Kind.INSTRUCTIONS, f"{n}", "y" * 15_000) for n in range(9)]
    library = build_library([Source(PROJECT, [*long, *rules])])
    assert sum(len(one.content) for one in library.recall("go")) < 23_000
    assert len(library.instructions_of(PROJECT)) <= 16_000
