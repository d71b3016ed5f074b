"""Each example of the documentation is a cassette, and plays as the documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import FOLDER, TASKS, run
from tests.program import ROOT


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.timeout(120)
def test_example_plays_without_a_model(name: str, tmp_path: Path) -> None:
    ran = run(TASKS[name], "--model", f"cassette:{name}.jsonl", home=tmp_path)
    assert ran.returncode == 0, f"record it anew: python -m tests.examples\n{ran.stderr}"
    assert ran.stdout.endswith("greeting.txt has 3 lines.\n")


def test_documentation_and_examples_match() -> None:
    shown = "".join((ROOT / page).read_text("utf-8") for page in ("README.md", "docs/headless.md"))
    for name, task in TASKS.items():
        assert f"handloom run '{task}' --model cassette:docs/examples/{name}.jsonl" in shown
        assert f"handloom run '{task}' --model scripted:docs/examples/{name}.yaml" in shown
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(TASKS)
    assert str(ROOT) not in "".join(path.read_text("utf-8") for path in FOLDER.iterdir())
