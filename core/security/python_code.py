"""The part of Python that is understood: it computes, prints, and reads files of the workspace by literal names.

A closed subset of the syntax and a short list of functions. Whatever else stands in a text makes it code that can do
anything, and is_understood says so. Nothing is evaluated: the work is one walk over a tree of bounded size.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re

from core.security.findings import Findings
from core.security.risk_rules import names

MAX_CHARS = 16_000
MAX_NODES = 2_000
_MODULES = names(
    "math statistics json re string textwrap datetime time calendar decimal fractions random itertools "
    "collections functools operator sys platform sysconfig hashlib base64 binascii csv pprint"
)
_BUILTINS = names(
    "print len range sum min max abs round sorted reversed enumerate zip map filter any all int float str "
    "bool list dict set tuple frozenset bytes repr ascii ord chr hex oct bin divmod pow isinstance type "
    "format hash iter next slice id"
)
_FUNCTIONS = names(
    "math.* json.load json.loads json.dumps re.match re.search re.findall re.sub re.split re.fullmatch re.compile"
    " statistics.mean statistics.median statistics.mode statistics.stdev statistics.pstdev statistics.variance"
    " textwrap.dedent textwrap.indent textwrap.fill textwrap.wrap textwrap.shorten"
    " datetime.datetime datetime.date datetime.time datetime.timedelta datetime.timezone datetime.timezone.utc"
    " datetime.datetime.now datetime.datetime.today datetime.datetime.fromisoformat datetime.datetime.strptime"
    " datetime.date.today datetime.date.fromisoformat datetime.datetime.fromtimestamp datetime.datetime.utcnow"
    " time.time time.strftime time.perf_counter decimal.Decimal fractions.Fraction"
    " random.random random.randint random.choice random.choices random.sample random.shuffle random.uniform random.seed"
    " itertools.chain itertools.product itertools.permutations itertools.combinations itertools.count itertools.groupby"
    " itertools.accumulate itertools.islice itertools.repeat itertools.zip_longest collections.Counter"
    " collections.defaultdict collections.OrderedDict collections.deque functools.reduce operator.add operator.mul"
    " platform.system platform.machine platform.python_version platform.release"
    " sysconfig.get_config_var sysconfig.get_path sysconfig.get_paths hashlib.sha256 hashlib.md5 hashlib.sha1"
    " base64.b64encode base64.b64decode pprint.pprint"
)
_TAKEN = frozenset(dir(builtins)) | names(
    "exit quit copyright credits license help In Out get_ipython display open_file goto_line scroll_down scroll_up"
    " search_dir search_file find_file parse_pdf parse_docx parse_latex parse_pptx parse_audio parse_image parse_video"
    " get_entity_contents search_code_snippets explore_tree_structure file_editor"
)
"""Names that mean something before the code runs. Code that assigns one may still use what it meant before."""
_DECODED_OR_STRIPPED = re.compile(r"^[ \t\f]*(?:#.*coding[:=]|>>>|\.\.\.|(?:\[\w+\] ?)?In \[)", re.MULTILINE)
"""Lines that name an encoding, which Python may obey, and those of which IPython removes the beginning, a prompt."""
_METHODS = names(
    "append extend insert pop remove clear sort reverse index count copy items keys values get update "
    "setdefault add discard union intersection difference split rsplit join strip lstrip rstrip replace "
    "startswith endswith lower upper title capitalize splitlines encode decode find zfill ljust rjust "
    "center isdigit isalpha isoformat strftime hexdigest digest most_common group groups start end "
    "total_seconds timestamp date time days seconds read readlines readline"
)
_ATTRIBUTES = names(
    "version version_info platform maxsize argv pi e inf nan tau year month day hour minute second major "
    "minor ascii_letters digits executable days seconds"
)
_NODES = (
    ast.Module, ast.Expr, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Assign, ast.AugAssign, ast.AnnAssign,
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.List, ast.Tuple, ast.Dict, ast.Set,
    ast.Subscript, ast.Slice, ast.Attribute, ast.JoinedStr, ast.FormattedValue, ast.IfExp, ast.If, ast.For,
    ast.While, ast.Break, ast.Continue, ast.Pass, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    ast.comprehension, ast.Lambda, ast.arguments, ast.arg, ast.Import, ast.alias, ast.ImportFrom, ast.Starred,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Assert,
)  # fmt: skip


def is_understood(code: str, findings: Findings, folders: tuple[str, ...]) -> bool:
    """Whether all of a code is understood; what it reads is said in the findings."""
    if len(code) > MAX_CHARS or "\0" in code or _DECODED_OR_STRIPPED.search(code):
        return False
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    nodes = list(ast.walk(tree))
    if len(nodes) > MAX_NODES or not all(isinstance(node, _NODES) for node in nodes):
        return False
    named = _imported(nodes)
    if named is None or any(
        isinstance(node, ast.Name) and node.id.startswith("_") and node.id != "_" for node in nodes
    ):
        return False
    reads = list[str]()
    if not all(_is_allowed(node, named, reads) for node in nodes):
        return False
    for path in reads:
        resolved = {findings.places.resolve(path, folder) for folder in folders}
        if not resolved or None in resolved or ".." in path or not all(
            str(findings.places.place(one or "")) in ("inside", "temporary") for one in resolved):  # fmt: skip
            return False
        for one in resolved:
            findings.read_path(one or path)
    return True


def may_be_magic(code: str) -> bool:
    """Whether IPython may take a cell for one of its commands, as it does with `rm -x` where nothing is named `rm`.

    That holds for a first word that is no name of Python's and that is not assigned to there. No command of IPython's
    has a name of one letter.
    """
    found = re.match(r"\s*([A-Za-z_]\w+)\s*(=(?!=)|,)?", code)
    return found is not None and not (found[2] or keyword.iskeyword(found[1]) or found[1] in dir(builtins))


def _imported(nodes: list[ast.AST]) -> dict[str, str] | None:
    """What imported names mean; None where a module or a function is not in the list, or a name is bound twice."""
    named: dict[str, str] = {}
    for node in nodes:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for one in node.names:
            meant = one.name if isinstance(node, ast.Import) else f"{node.module}.{one.name}"
            if not (meant in _MODULES if isinstance(node, ast.Import) else not node.level and _is_function(meant)):
                return None
            if named.setdefault(one.asname or one.name, meant) != meant:
                return None
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    opened = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        is_strange = isinstance(node, ast.Name) and node.id not in bound | named.keys() | _BUILTINS
        if is_strange and (getattr(node, "id", "") != "open" or id(node) not in opened):
            return None
    return None if named.keys() & _TAKEN or bound & (named.keys() | _TAKEN) else named


def _is_function(name: str) -> bool:
    module, _, rest = name.partition(".")
    parts = rest.split(".")
    plain = all(part.isidentifier() and not part.startswith("_") for part in parts)
    return plain and (name in _FUNCTIONS or f"{module}.*" in _FUNCTIONS)


def _is_allowed(node: ast.AST, named: dict[str, str], reads: list[str]) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store()):
            return False
        case ast.Call(func=ast.Name(id="open"), args=[ast.Constant(value=str() as path), *rest], keywords=keywords):
            reads.append(path)
            modes = [one.value for one in rest if isinstance(one, ast.Constant)]
            given = all(key.arg == "encoding" for key in keywords)
            return given and len(rest) == len(modes) and all(mode in ("r", "rb", "rt") for mode in modes)
        case ast.Call(func=ast.Name(id=name)):
            return name in _BUILTINS or _is_function(named.get(name, ""))
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name in named:
            return _is_function(f"{named[name]}.{attr}")
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr in _METHODS
        case ast.Call():
            return False
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in named:
            return _is_function(f"{named[name]}.{attr}") or attr in _ATTRIBUTES
        case ast.Attribute(attr=attr):
            return attr in _METHODS or attr in _ATTRIBUTES
    return True
