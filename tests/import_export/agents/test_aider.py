"""Chats of aider: shortened ones that version 0.86.2 wrote with a scripted model, and older forms."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.import_export.agents import aider
from core.import_export.agents.aider import discover, read
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Transcript, Usage
from core.import_export.bounded_json import Fault
from tests.import_export.agents.fuzzed import survives
from tests.import_export.agents.shown import shown

START = "\n# aider chat started at {}\n\n> Aider v0.86.2  \n> Main model: openai/gpt-4o with {} edit format  \n\n"
FIRST = (
    START.format("2026-11-28 23:04:56", "diff")
    + """#### Change x to 3.¦
#### And add z.¦

I change `b.py`.

# A heading of mine

b.py
```python
<<<<<<< SEARCH
x = 1
=======
x = 3
>>>>>>> REPLACE
```

new.py
```python
<<<<<<< SEARCH
=======
z = 1
>>>>>>> REPLACE
```

> Tokens: 4.2k sent, 1.1k cache hit, 20 received. Cost: $0.00044 message, $0.00044 session.¦
> Applied edit to new.py¦
> Applied edit to b.py¦
> Commit 53dd914 aider: Change x and add z¦
""".replace("¦", "  ")
)
SECOND = (
    START.format("2026-11-28 23:05:01", "diff")
    + """#### Anything else?¦

Nothing to change here.
> a quote
#### four

> Tokens: 103 sent, 20 received.¦

#### /run echo hi¦
> Added 1 line of output to the chat.¦

#### Set x to 9¦

--------------
► **THINKING**

Which one?

------------
► **ANSWER**

b.py
```python
<<<<<<< SEARCH
not there
=======
x = 9
>>>>>>> REPLACE
```

> The LLM did not conform to the edit format.¦
> # 1 SEARCH/REPLACE block failed to match!

## SearchReplaceNoExactMatch
<<<<<<< SEARCH
not there
=======
x = 9
>>>>>>> REPLACE

The SEARCH section must match¦

I give up.

> ^C again to exit¦
""".replace("¦", "  ")
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    project = tmp_path / "project"
    project.mkdir()
    return Places(tmp_path, {}, "linux", (project, Path("relative")))


def write(places: Places, text: str) -> Path:
    file = places.projects[0] / ".aider.chat.history.md"
    file.write_text(text)
    return file


def chats(places: Places) -> list[AgentSession]:
    return list(discover(places))


def read_one(places: Places) -> Transcript:
    (session,) = discover(places)
    return read(session)


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_each_chat_in_the_file_is_a_session(places: Places) -> None:
    file = write(places, FIRST + SECOND)
    os.utime(file, (1_800_000_000, 1_800_000_000))
    first, second = chats(places)
    assert first.id.startswith("project-")
    assert (first.title, second.title) == ("Change x to 3.", "Anything else?")
    assert (first.folder, first.model) == (str(places.projects[0]), "openai/gpt-4o")
    assert (first.tokens, first.cost, second.tokens, second.cost) == (4220, 0.00044, 123, None)
    assert first.started_at == local("2026-11-28 23:04:56")
    assert (first.changed_ns, second.changed_ns) != (second.changed_ns, first.changed_ns)
    assert first.size + second.size + 1 == file.stat().st_size
    before = (first.id, first.size, first.changed_ns)
    file.write_text(FIRST + SECOND + FIRST)
    again = chats(places)
    assert (again[0].id, again[0].size, again[0].changed_ns) == before
    assert len({session.id for session in again}) == 3


def test_files_in_the_home_folder_and_of_the_environment_are_read(places: Places, tmp_path: Path) -> None:
    (tmp_path / ".aider.chat.history.md").write_text(FIRST)
    (tmp_path / "other.md").write_text(SECOND)
    named = Places(tmp_path, {"AIDER_CHAT_HISTORY_FILE": str(tmp_path / "other.md")})
    assert [session.title for session in chats(named)] == ["Change x to 3.", "Anything else?"]


def test_edits_are_taken_from_the_answer_and_applied_later(places: Places) -> None:
    write(places, FIRST)
    transcript = read_one(places)
    assert shown(transcript) == [
        ("aider.output",),
        ("user", "Change x to 3.\nAnd add z."),
        ("agent", "I change `b.py`.\n\n# A heading of mine"),
        ("edits", "b.py", "str_replace"),
        ("edits", "new.py", "str_replace"),
        ("edited", 4, "--- new.py\n+++ new.py\n@@ -0,0 +1 @@\n+z = 1"),
        ("edited", 3, "--- b.py\n+++ b.py\n@@ -1 +1 @@\n-x = 1\n+x = 3"),
        ("aider.output",),
    ]
    assert transcript.usage == Usage("", 4200, 20, 1100, 0, 0.00044)
    assert datetime.fromisoformat(transcript.forms[0]["timestamp"]) == local("2026-11-28 23:04:56")
    assert transcript.forms[1]["imported"]["record"] == {"agent": "aider", "place": 6, "kind": "user"}


def test_marks_without_two_spaces_belong_to_the_answer(places: Places) -> None:
    write(places, SECOND)
    found = shown(read_one(places))
    failure = found[9]
    assert found[:9] == [
        ("aider.output",),
        ("user", "Anything else?"),
        ("agent", "Nothing to change here.\n> a quote\n#### four"),
        ("runs", "echo hi"),
        ("aider.output",),
        ("user", "Set x to 9"),
        ("thinks", "Which one?"),
        ("edits", "b.py", "str_replace"),
        ("error result", None, "The LLM did not conform to the edit format."),
    ]
    assert failure[:2] == ("error result", 7)
    assert failure[2].startswith("# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch")
    assert found[10:] == [("agent", "I give up."), ("state", "stopped")]


def test_diffs_and_whole_files_are_edits_too(places: Places) -> None:
    diff = "--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    answer = f"#### Go  \n\nHere:\n\n```diff\n{diff}```\n\n> Applied edit to b.py  \n"
    write(places, START.format("2026-11-28 23:05:01", "udiff") + answer)
    assert shown(read_one(places))[2:] == [("agent", "Here:"), ("edits", "b.py", ""), ("edited", 3, diff)]
    answer = "#### Go  \n\n**src/a b.py**\n```\ny = 1\n```\nDone.\n\n> Applied edit to src/a b.py  \n"
    write(places, START.format("2026-11-28 23:05:01", "whole") + answer)
    assert shown(read_one(places))[2:] == [
        ("agent", "Done."),
        ("edits", "src/a b.py", "create"),
        ("edited", 3, "--- src/a b.py\n+++ src/a b.py\n@@ -0,0 +1 @@\n+y = 1"),
    ]


def test_a_chat_that_moved_is_refused(places: Places) -> None:
    file = write(places, FIRST + SECOND)
    _first, second = chats(places)
    file.write_text("gone")
    with pytest.raises(Fault, match="the file was changed"):
        read(second)
    file.unlink()
    with pytest.raises(OSError, match="No such file"):
        read(second)


def test_links_are_not_followed(places: Places, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(FIRST)
    (places.projects[0] / ".aider.chat.history.md").symlink_to(tmp_path / "secret")
    assert chats(places) == []


def test_damaged_chats_raise_nothing_else(places: Places) -> None:
    write(places, FIRST + SECOND)
    survives(discover, read, places, trials=100)


def test_the_time_grows_with_the_length_only(places: Places) -> None:
    write(places, FIRST + SECOND.partition("#### ")[2] * 2000 + "```\n" * 50_000 + "\n#### x  \n> y  " * 20_000)
    started = time.process_time()
    assert len(read_one(places).forms) > 40_000
    assert time.process_time() - started < 4


def test_only_the_end_of_a_huge_file_is_listed(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    write(places, FIRST + SECOND)
    monkeypatch.setattr(aider, "_LIST_BYTES", len(SECOND.encode()) + 50)
    (session,) = chats(places)
    assert session.title == "Anything else?"
    assert shown(read(session))[1] == ("user", "Anything else?")


def test_only_line_feeds_end_lines(places: Places) -> None:
    write(places, FIRST.replace("x = 1", "x = 'a\x0c\u2028b'").replace("x = 3\n", "x = 'a\x0cb'\n"))
    edited = [form["extras"]["diff"] for form in read_one(places).forms if form.get("observation") == "edit"]
    assert edited[1] == "--- b.py\n+++ b.py\n@@ -1 +1 @@\n-x = 'a\x0c\u2028b'\n+x = 'a\x0cb'"
