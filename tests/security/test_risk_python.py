"""Which Python is understood: a closed subset. Everything else is code that can do anything, and asks."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.events import ActionSecurityRisk, CmdRunAction, IPythonRunCellAction
from core.security.facts import Facts, facts_of
from core.security.python_code import MAX_CHARS, MAX_NODES
from runtime.plugins.agent_skills import agentskills

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
    "import platform\nprint(platform.platform())",
    "import platform; platform.os.remove('x')",
    "import statistics; statistics.sys.modules",
    "while True:\n    exec(x)",
    "list(map(eval, ['1']))\neval = 1",  # a name that is assigned, but later, or elsewhere
    "if 0:\n    get_ipython = 1\nshell = next(iter(get_ipython, 0))",
    "list(map(file_editor, ['create'], ['x'])), [0 for file_editor in []]",
    "f = lambda exec: list(map(exec, ['1']))",
    "sx = 1\n... %sx ['ls']",  # IPython removes prompts
    'sx = """\n>>> a\n"""\n... %sx [\'ls\']',
    "import math, operator\nIn [1]: math = operator\nmath.attrgetter('x')\nIn = [0, 0]",
    "x = [0]\n[ins] In [1]: x",
    "# -*- coding: utf-7 -*-\n# +AAo-import os",  # where bash writes a heredoc to a file
    "#!python\n# vim: set fileencoding=utf-7 :\n# +AAo-import os",
]


@pytest.mark.parametrize("name", [*agentskills.__all__, "parse_audio", "parse_image", "parse_video"])
def test_functions_of_the_kernel_are_not_passed_on_by_assigning_their_names(name: str) -> None:
    assert read(f"list(map({name}, ['x']))\nif 0:\n    {name} = 1").not_understood


def read(code: str) -> Facts:
    return facts_of(IPythonRunCellAction(code=code), workspace="/workspace/app")


@pytest.mark.parametrize("code", UNDERSTOOD)
def test_code_that_only_computes_is_understood(code: str) -> None:
    facts = read(code)
    assert (facts.not_understood, facts.risk) == ((), ActionSecurityRisk.LOW)


@pytest.mark.parametrize("code", NOT_UNDERSTOOD)
def test_other_code_asks_in_cells_and_commands(code: str) -> None:
    assert read(code).risk is ActionSecurityRisk.UNKNOWN
    assert read(code).opaque
    command = "python3 - <<'END_OF_CODE'\n" + code + "\nEND_OF_CODE"
    assert facts_of(CmdRunAction(command=command), workspace="/workspace/app").not_understood


@pytest.mark.parametrize(
    "code",
    ["rm -rf *important; rm = rf = important = 1", "\n\n  sx [1]; sx = 1", "cat *env; cat = env = 1",
     "rm += -rf *y; y = 1", "rm: -rf *y; y = 1", "cd == 1; cd = 1"],
)  # fmt: skip
def test_cell_that_may_be_an_ipython_magic_asks(code: str) -> None:
    assert read(code).risk is ActionSecurityRisk.UNKNOWN


def test_literal_read_of_a_secret_is_reported() -> None:
    assert "secret.read" in read("print(open('.env').read())").rules


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from([*UNDERSTOOD, *NOT_UNDERSTOOD, "(", "[", "\\", "'", "lambda: ", "\n", "for x in y:\n "]),
        max_size=6,
    )
)
def test_any_cell_is_analysed(parts: list[str]) -> None:
    assert not any("reading it failed" in part for part in read("".join(parts)).not_understood)


@pytest.mark.parametrize(
    "code", ["(" * 5_000, "x = " + "[" * 2_000 + "]" * 2_000, "1 + " * 30_000 + "1", "!ls\n" * 3_000]
)
def test_too_large_code_is_not_understood(code: str) -> None:
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


SHORT = [
    "x = 1",
    "_ = 1",
    "x: int = 1",
    "x = y = 1",
    "x += 1",
    "x, y = 1, 2",
    "import math as m; print(m.sqrt(2))",
    "from math import sqrt as s; print(s(2))",
    "from math import sqrt, pi",
    "import math as x; import math as x",
    "from collections import Counter; print(Counter('a').most_common(1))",
    "from datetime import datetime as d; print(d.now().year)",
    "import json; json.loads('1')",
    "import json; json.loads",
    "print(len)",
    "x = 1; print(x)",
    "for x in [1]: print(x)",
    "[x for x in [1]]",
    "{x: y for x, y in {}.items()}",
    "print('a'.upper())",
    "print('a'.join(['b']).title())",
    "print('a'.upper)",
    "print(f'{1}')",
    "print(f'{1!r:>3}')",
    "[].append(1)",
    "[].sort(key=len)",
    "sorted([1], key=lambda x: -x)",
    "map(print, [1])",
    "while True: break",
    "if 1: pass",
    "assert 1",
    "print(1 if 2 else 3)",
    "print(*[1])",
    "print(**{})",
    "print([1][0:1])",
    "print(not 1 and -1 or ~1)",
    "type('A', (), {})",
    "isinstance(1, int)",
    "import random; random.random()",
    "import hashlib; print(hashlib.sha256(b'x').hexdigest())",
    "import textwrap; textwrap.dedent('x')",
    "import string; print(string.ascii_letters)",
    "1; 2",
]
SHORT_NOT_UNDERSTOOD = [
    "_x = 1",
    "x[0] = 1",
    "x.y = 1",
    "import math; math = 1",
    "import math; print = 1",
    "import math as print",
    "from math import sqrt as open",
    "from math import _x",
    "from os import path",
    "from . import math",
    "from .math import sqrt",
    "import math as x; import json as x",
    "import os.path",
    "import collections.abc",
    "import datetime; print(datetime.datetime.now())",
    "import datetime; print(datetime.sys)",
    "import sys; print(sys.argv, sys.modules)",
    "import sys; print(sys.exit(1))",
    "import json; json.dump(1, 2)",
    "print(open)",
    "open",
    "open('x', 'w')",
    "open('x', mode)",
    "open('x', mode='r')",
    "open('x', 'r', 1)",
    "open(*x)",
    "open('a/../x')",
    "open('~/x')",
    "print(x)",
    "(lambda x: x)(1)",
    "f = lambda x: x; f(1)",
    "f(1)",
    "print('a'.format(1))",
    "print('a'.mro)",
    "print(f'{x}')",
    "map(open, [1])",
    "assert x",
    "del x",
    "raise x",
    "try: pass\nexcept: pass",
    "with open('x') as f: pass",
    "def f(): pass",
    "async def f(): pass",
    "yield 1",
    "return 1",
    "global x",
    "print(x := 1)",
    "print(__name__)",
    "__import__('os')",
    "len = 1",
    "def len(): pass",
    "lambda len: 1",
    "lambda open: 1",
    "open = 1",
    "math.sqrt(1)",
    "input()",
    "exec('1')",
    "getattr(1, 'x')",
    "print(1).x",
    "print('a', file=x)",
    "import random; random.SystemRandom()",
    "import hashlib; hashlib.new('x')",
    "import string; string.Formatter()",
    "match 1:\n case 1: pass",
]


@pytest.mark.parametrize("code", SHORT)
def test_each_computing_form_is_understood_and_reads_nothing(code: str) -> None:
    facts = read(code)
    assert (facts.not_understood, facts.rules, facts.reads) == ((), (), ())


@pytest.mark.parametrize("code", SHORT_NOT_UNDERSTOOD)
def test_each_other_form_is_not_understood(code: str) -> None:
    assert read(code).not_understood == (" ".join(code.split()) + " (code)",)


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("open('x')", "/w/x"),
        ("open('x', 'r')", "/w/x"),
        ("open('x', 'rb')", "/w/x"),
        ("open('x', encoding='utf-8')", "/w/x"),
        ("open('x', 'r', encoding='utf-8')", "/w/x"),
        ("open('/tmp/x')", "/tmp/x"),
        ("open('.env')", "/w/.env"),
    ],
)
def test_file_opened_for_reading_by_name_is_read(code: str, path: str) -> None:
    facts = facts_of(IPythonRunCellAction(code=code), workspace="/w")
    assert (facts.not_understood, facts.reads) == ((), (path,))


def test_code_is_limited_in_length_and_parts() -> None:
    assert read("#" * MAX_CHARS).not_understood == ()
    assert read("#" * (MAX_CHARS + 1)).not_understood
    assert read("1\n" * (MAX_NODES // 2 - 1)).not_understood == ()
    assert read("1\n" * (MAX_NODES // 2)).not_understood
