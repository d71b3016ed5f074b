"""Which Python is understood: a closed subset. Everything else is code that can do anything, and asks."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.events import ActionSecurityRisk, CmdRunAction, IPythonRunCellAction
from core.security.facts import Facts, facts_of

UNDERSTOOD = [
    "print(1 + 1)",
    "x = [n ** 2 for n in range(10) if n % 2]\nprint(sum(x))",
    "import math\nprint(math.sqrt(2))",
    "import json\nprint(json.load(open('package.json'))['name'])",
    "print(open('src/main.py').read())",
    "from datetime import datetime\nprint(datetime.now().isoformat())",
    "words = 'a b'.split()\nfor word in words:\n    print(word.upper())",
    "import sys; print(sys.version)",
]
NOT_UNDERSTOOD = [
    "import os\nos.system('ls')",
    "import posix; posix.system('git push')",
    "import os; os.spawnvp(0, 'git', ['git', 'push'])",
    "import timeit; timeit.timeit(\"__import__('os').system('ls')\")",
    "import pickle\npickle._loads(b'x')",
    "%config IPCompleter.greedy = True",
    "%load_ext sql",
    "get_ipython().system_raw('ls')",
    "!ls",
    "%%bash\nls",
    "import subprocess\nsubprocess.run(['git', 'status'])",
    "open('out.txt', 'w').write('x')",
    "open('../x').read()",
    "open('/etc/passwd').read()",
    "open(name).read()",
    "list(map(open, ['/etc/passwd']))",
    "list(map(eval, ['1']))",
    "eval('1')",
    "f = print\nf('x')",
    "().__class__.__bases__[0].__subclasses__()",
    "'{0.__class__}'.format(1)",
    "__import__('os')",
    "import pathlib; pathlib.Path('a').rename('b')",
    "from math import *",
    "import random as print\nprint('x')",
    "def (",
    "print = eval\nprint('1')",
    "class A: pass",
    "import sys; sys.path.append('x')",
    "x.__dict__",
    "import platform; platform.os.remove('x')",
    "import statistics; statistics.sys.modules",
    "while True:\n    exec(x)",
]


def read(code: str) -> Facts:
    return facts_of(IPythonRunCellAction(code=code), workspace="/workspace/app")


@pytest.mark.parametrize("code", UNDERSTOOD)
def test_code_that_only_computes_is_understood(code: str) -> None:
    facts = read(code)
    assert (facts.not_understood, facts.risk) == ((), ActionSecurityRisk.LOW)


@pytest.mark.parametrize("code", NOT_UNDERSTOOD)
def test_all_other_code_asks_in_a_cell_and_on_a_command_line(code: str) -> None:
    assert read(code).risk is ActionSecurityRisk.UNKNOWN
    assert read(code).opaque
    command = "python3 - <<'END_OF_CODE'\n" + code + "\nEND_OF_CODE"
    assert facts_of(CmdRunAction(command=command), workspace="/workspace/app").not_understood


def test_a_literal_read_of_a_secret_is_told() -> None:
    assert "secret.read" in read("print(open('.env').read())").rules


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from([*UNDERSTOOD, *NOT_UNDERSTOOD, "(", "[", "\\", "'", "lambda: ", "\n", "for x in y:\n "]),
        max_size=6,
    )
)
def test_any_cell_is_read(parts: list[str]) -> None:
    assert not any("reading it failed" in part for part in read("".join(parts)).not_understood)


@pytest.mark.parametrize(
    "code", ["(" * 5_000, "x = " + "[" * 2_000 + "]" * 2_000, "1 + " * 30_000 + "1", "!ls\n" * 3_000]
)
def test_what_is_too_large_is_not_understood(code: str) -> None:
    assert read(code).opaque


@pytest.mark.parametrize("code", ["x='ab'\n" + "x+=x\n" * 30 + "y = x", "print('a' * 10 ** 12)", "x = 9 ** 9 ** 9"])
def test_nothing_is_evaluated(code: str) -> None:
    """156 characters took 1.6 GB when values were computed."""
    tracemalloc.start()
    try:
        read(code)
        facts_of(CmdRunAction(command=f"python3 <<'E'\n{code}\nE"), workspace="/workspace/app")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
