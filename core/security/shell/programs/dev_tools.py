"""Interpreters, package managers, compilers, test runners, and programs that download tools and start them."""

from __future__ import annotations

import re
import sys

from core.security.python_code import is_understood
from core.security.risk_rules import names
from core.security.shell.expansion import Value, known
from core.security.shell.program_call import Call
from core.security.shell.program_table import Arguments, Handler

_INDEX = (
    "/https:\\x2f\\x2f(?:pypi\\.org|test\\.pypi\\.org|download\\.pytorch\\.org|registry\\.npmjs\\.org)"
    "(?:\\x2f[\\w.\\x2f-]*)?/"
)
_VERSION = "/(?:[a-z]+@?)?[<>=~]*\\d[\\w.]*|python/"
_NAME = "/[\\w.-]+/"
_NAMES = "/[\\w.,-]+/"
_PIP = (
    " -qUvy -r=r -c=r -e=k --requirement=r --constraint=r --editable=k --upgrade --quiet --verbose --user --pre"
    f" --no-deps --no-cache-dir --break-system-packages --force-reinstall --no-build-isolation --index-url={_INDEX}"
    f" -i={_INDEX} --extra-index-url={_INDEX} --outdated --format={_NAME} --yes --dry-run"
)
_UV = (
    f" -qvnU -p={_VERSION} -P=k -r=r -c=r -o=w --quiet --verbose --python={_VERSION} --frozen --locked --no-sync"
    f" --offline --no-cache --refresh --all-extras --extra={_NAME} --group={_NAME} --only-group={_NAME}"
    f" --no-group={_NAME} --all-groups --dev --no-dev --only-dev --with=k --package={_NAME} --all-packages --isolated"
    " --no-project --seed --system --upgrade --upgrade-package=k --reinstall --reinstall-package=k"
    f" --resolution={_NAME} --prerelease={_NAME} --index-url={_INDEX} --extra-index-url={_INDEX}"
    f" --default-index={_INDEX} --index={_INDEX} --no-index --compile-bytecode --no-editable --no-install-project"
    f" --output-file=w --format={_NAME} --no-hashes --no-header --universal --requirements=r --constraints=r"
    f" --optional={_NAME} --tag={_NAME} --branch={_NAME} --rev={_NAME} --lfs --app --lib --bare --name={_NAME}"
    f" --description=t --no-package --author-from={_NAME} --vcs={_NAME} --pin-python --clear --wheel --sdist"
    " --out-dir=w --all-platforms --all-versions --only-installed --managed-python --no-managed-python --force"
    f" --no-sources --bump={_NAME} --short --dry-run --outdated --depth={_NAME} --with-executables-from=k --preview"
    " --help --version --script=r"
)
_JS = (
    " -gDESP --global --save-dev --save-exact --save --dev --legacy-peer-deps --no-audit --no-fund --prefer-offline"
    " --force --frozen-lockfile --immutable --silent --ignore-scripts --production --yes -y --depth=/\\d+/ --json"
    " --omit=/\\w+/"
)
_PYTEST = (
    " -qvxslh -# -k= -m= -n= -r= -W= --co --collect-only --lf --last-failed --ff --failed-first --nf --sw --maxfail="
    " --tb= --durations= --cov? --cov-report= --no-cov --cov-append --junitxml=w --timeout= --ignore= --deselect="
    " --strict-markers --showlocals --exitfirst --verbose --quiet --capture= --color= --markers --fixtures --runxfail"
    " --dist= --snapshot-update --update-snapshots --benchmark-only --disable-warnings --asyncio-mode= --version"
    " --help --doctest-modules --headed --headless --no-headless --slow-mo= --slowmo= --base-url=t --browser="
    " --runslow --run-slow --count= --seed= --log-cli-level= --log-level= -p=/no:\\w+/ --full-trace --cache-clear"
    " --stepwise"
)
_CARGO = (
    " -qvr -p= -F= -j= --quiet --verbose --release --package= --workspace --all --exclude= --lib --bin= --bins"
    " --example= --examples --test= --tests --bench= --benches --all-targets --features= --all-features"
    " --no-default-features --target= --profile= --manifest-path= --locked --offline --frozen --jobs= --no-run"
    " --no-fail-fast --doc --fix --allow-dirty --allow-staged --no-deps --open --check --message-format= --accept"
    " --review --test-runner=/\\w+/ --failure-output= --status-level= --title= -A= -W= -D="
)
_GO = (
    " -:v -:x -:race -:cover -:coverprofile=w -:covermode= -:run= -:bench= -:benchmem -:count= -:timeout= -:short"
    " -:parallel= -:tags= -:trimpath -:mod=/vendor|mod|readonly/ -:json -:failfast -:shuffle= -:skip= -o=w"
    " -:ldflags=/(?:(?:-[sw]|-X\\s[\\w.\\x2f]+=[\\w.+-]+)\\s?)+/ -:gcflags=/(?:all=)?(?:-[Nlm]\\s?)+/"
)
_GO_PACKAGE = "/[\\w.-]+(?:\\x2f[\\w.-]+)*(?:@[\\w.-]+)?/"
_SCRIPT = "build dev lint check format typecheck watch preview serve clean prepare test t tst start stop restart"
_TARGET = "/[\\w][\\w.%:\\x2f-]*|(?!MAKE|SHELL)\\w+=(?:true|false|yes|no|on|off|debug|release|[\\d.]+|--[a-z][a-z-]*)?/"
_INSTALL = "| package.install run.project"

TABLE = f"""
  python python3 python3.10 python3.11 python3.12 python3.13 | | q | !python
  pip pip3 | --version --help | @pip | run.project
  uv | -qvVh --quiet --verbose --version --help --no-cache --offline --no-progress | @uv | run.project
  uvx | -q --python={_VERSION} --isolated --with=k --version --help | a | run.project !fetched_tool
  npx bunx pnpx | -y --yes --version | a | run.project !fetched_tool
  npm pnpm yarn bun | --version -v | @npm | run.project
  poetry | --version | @poetry | run.project
  cargo | --version | @cargo | run.project
  go | | @go | run.project
  rustc | --version | | run.project
  gofmt | -wlsd | t* | run.project
  make gmake | -Bknsi -j? --dry-run --silent --jobs? --always-make --keep-going --version -C=C --directory=C -f=x |
        {_TARGET}* | run.project
  just task | --list -l | /[\\w:-]+/? /[\\w.,:@%+=\\x2f-]+/* | run.project
  tox | -p -e=/[\\w,.-]+/ --version | | run.project
  node nodejs | -v --version --test | x? | run.project !node
  tsx ts-node | --version | x | run.project !tsx
  bash sh | | q | !shell
  pytest py.test | {_PYTEST} | t* | run.project
  ruff | -qsenh --fix --unsafe-fixes --no-fix --diff --watch --check --statistics --select= --ignore= --extend-select=
        --config= --exclude= --line-length= --target-version= --output-format= --format= --preview --no-cache
        --exit-zero --explain --show-files --show-settings --clean --respect-gitignore --version --help --quiet
        --verbose | t* | run.project
  mypy pyright basedpyright ty flake8 pylint black isort vulture codespell lint-imports yamllint | -qvh --version
        --help --strict --check --diff --quiet --verbose --exclude= --line-length= --ignore= --select= --profile=
        --python-version= --ignore-missing-imports --show-error-codes --max-line-length= --check-only | t* |
        run.project
  tsc eslint prettier vitest jest mocha | -w --watch --run --fix --check --write --noEmit --version --help --coverage
        --bail --silent --quiet --ci --ext= --max-warnings= --cache --runInBand --passWithNoTests -t= | t* |
        run.project
  pre-commit prek | --version | @pre-commit | run.project
  mkdocs | --version | @mkdocs | run.project
  marimo | --version | @marimo | run.project
  jupyter | --version | /lab|notebook/ | run.project net.listen
  fastapi | --version | /dev|run/ t* | run.project net.listen
  uvicorn | --host= --port= --reload --workers= | /[\\w.]+:\\w+/ | run.project net.listen
  textual | --version | /run|console/? t* | run.project
  twine | | t* | package.publish
[pip]
  install | {_PIP} | k* {_INSTALL}
  uninstall | {_PIP} | {_NAME}* {_INSTALL}
  list freeze show check | {_PIP} | {_NAME}* | run.project
[uv]
  add remove sync lock build export tree | {_UV} | k* {_INSTALL}
  venv | -q -p={_VERSION} --quiet --python={_VERSION} --seed --offline --no-project --system | k* {_INSTALL}
  init | {_UV} | w? {_INSTALL}
  version help | {_UV} | {_NAME}* | run.project
  run | {_UV} -m --script | a | package.install run.project !uv_run
  pip | | @uv_pip | run.project
  tool | | @uv_tool | run.project
  python | {_UV} | /find|list|install|pin|upgrade/ /[\\w.<>=+-]+/* {_INSTALL}
[uv_pip]
  install sync uninstall | {_UV} -e=k --editable=k | k* {_INSTALL}
  compile | {_UV} | r* {_INSTALL}
  list freeze show tree check | {_UV} | {_NAME}* | run.project
[uv_tool]
  run | {_UV} | a | run.project !fetched_tool
  install upgrade uninstall | {_UV} | k* {_INSTALL}
  list dir | {_UV} | | run.project
[npm]
  - | {_JS} | | package.install run.project
  install i ci add uninstall remove rm update upgrade | {_JS} | k* | package.install run.project !npm_package
  run | {_JS} | /[\\w:.-]+/? y* | run.project
  {_SCRIPT} | {_JS} | y* | run.project
  ls list outdated | {_JS} | {_NAME}* | run.project
  version | | /major|minor|patch/? | run.project
  publish | | t* | package.publish
[poetry]
  install update lock sync show check build version | -qvn --no-root --sync --with={_NAMES} --without={_NAMES}
        --only={_NAMES} --extras={_NAME} --all-extras --dry-run | {_NAME}* {_INSTALL}
  add remove | --group={_NAME} --dev -G={_NAME} | k* {_INSTALL}
  run | | $ | run.project
  publish | | t* | package.publish
[cargo]
  build b check c test t bench doc clippy fmt clean nextest insta shear metadata tree | {_CARGO} | y* | run.project
  run r | {_CARGO} | v | run.project
  add remove update fetch | {_CARGO} | /[\\w@.=-]+/* {_INSTALL}
  install | --locked --version= --force | /[\\w@.=-]+/* {_INSTALL}
  new init | --lib --bin --name= | w? {_INSTALL}
  publish | {_CARGO} | t* | package.publish
[go]
  version | |
  env | | /\\w+/* | run.project
  run | {_GO} | /\\.|\\.\\x2f[\\w\\x2f-]*(?:\\.go)?|[\\w\\x2f-]+\\.go/ v | run.project
  build test vet fmt generate list | {_GO} -:u -:m | t* | run.project
  install get | {_GO} -:u -:t | {_GO_PACKAGE}* {_INSTALL}
  mod | -:go=/[\\d.]+/ | /tidy|download|vendor|verify|graph|edit/ /go\\.mod/? {_INSTALL}
  tool | -:html=r -o=w -:func=r | /cover/ | run.project
[pre-commit]
  run | -a --all-files --show-diff-on-failure --files | t* | run.project
[marimo]
  edit run | --sandbox --headless | t? | run.project net.listen
[mkdocs]
  build serve | -f= --strict --clean | | run.project
"""
"""See `core.security.shell.program_table` for the language."""

_TOOLS = {
    "uvx": names("ruff black isort mypy flake8 pytest mkdocs marimo pre-commit textual jupyter ty pyright"),
    "npx": names("tsx tsc eslint prettier vitest jest mocha"),
}
"""Packages that are the programs of the table with their names."""
_MODULES = {name: name for name in ("pip", "pytest", "mypy", "ruff", "black", "isort", "flake8", "mkdocs", "textual")}
_FOREIGN_MODULES = names(
    "IPython ipykernel jupyter jupyter_core jupyter_server notebook nbconvert papermill xonsh ptpython bpython pudb"
    " ipdb "
    "debugpy scalene viztracer memory_profiler line_profiler kernprof pyinstrument py_spy pexpect fire invoke fabric "
    "plumbum sh twine pipx nox tox hatch poetry pdm uv conda mamba numpy torch accelerate deepspeed cython Cython"
    " numba "
    "cffi setuptools distutils pkg_resources wheel ansible awscli celery gunicorn twisted scrapy django flask ray dask "
    "dotenv honcho pre_commit keyring execnet rpyc Pyro4 Pyro5 piptools virtualenv pipenv pygments httpie docutils "
    "test tornado gevent streamlit mpi4py joblib paramiko supervisor watchdog watchfiles livereload coverage"
)
"""Modules of others that run what they are given."""
_ONLY_BASH = re.compile(r"\[\[|\$'|&>|\|&|<<<|[<>]\(|\{[^\s{]*,|\b(?:declare|typeset|pushd|popd|source|pipefail)\b")
"""What `sh` reads otherwise than bash: `[[ x || y ]]` runs y, and `declare` is not found."""
_SHELL_FLAGS = re.compile(r"-[euxl]*([co]?)")


def _piped(call: Call) -> None:
    """What is piped into an interpreter runs."""
    if call.stdin.is_remote:
        call.report("run.remote")
    if not call.stdin.is_given:
        call.report("shell.interactive")
        return
    raise call.fail(None, "it runs what is piped to it")


def _python(call: Call, arguments: Arguments) -> None:
    words, is_isolated = list(arguments.operands_of("q")), False
    while words and re.fullmatch(r"-[uBqIEsS]+", words[0].text or ""):
        is_isolated = "I" in words.pop(0).start or is_isolated
    first = words[0].text if words else "-"
    if first in ("--version", "-V", "--help", "-h"):
        return
    if first in ("-c", "-m") and words[1:]:
        (_python_code(call, words[1], is_isolated) if first == "-c" else _python_module(call, words[1], words[2:]))
    elif first == "-" and call.stdin.text is not None:
        _python_code(call, known(call.stdin.text), is_isolated)
    elif first == "-":
        _piped(call)
    elif words[0].start.startswith("-"):
        raise call.fail(words[0], "an option of python")
    else:
        call.runs(words[0])
        call.passes_arguments(words[1:])


_IMPORTS = re.compile(r"import|encod|decod|bytes|\bstr\b")


def _python_code(call: Call, value: Value, is_isolated: bool) -> None:
    """Without `-I`, a file of the folder may have the name of a module. Codecs are modules, too, and some versions
    of Python import one when an error ends the code.
    """
    if value.text is None or not is_understood(value.text, call.reader.findings, call.folders):
        raise call.fail(value, "code")
    if is_isolated:
        return
    if _IMPORTS.search(value.text):
        call.runs_project()
    elif call.shell.may_have_written_code:
        call.report("run.written")


def _python_module(call: Call, value: Value, rest: list[Value]) -> None:
    name = value.text or ""
    top, dot, _ = name.partition(".")
    call.runs_project()  # a file of the folder may have the name of the module
    if name in _MODULES:
        call.command([known(_MODULES[name]), *rest])
    elif name == "http.server" and all((one.text or "").isdigit() for one in rest):
        call.report("net.listen")
    elif name in ("venv", "unittest", "build"):
        for one in rest:
            if one.start.startswith("--c") or re.match(r"-\w.*[/~.]", one.start):  # --clear, -sFOLDER
                raise call.fail(one, f"an option of {name}")
            call.passes_path(one)
    elif name == "json.tool" and len(rest) < 2:
        for one in rest:
            call.reads(one)
    elif dot and top.isidentifier() and top not in sys.stdlib_module_names | _FOREIGN_MODULES | _MODULES.keys():
        call.passes_arguments(rest)
        for before, one in zip([value, *rest], rest, strict=False):
            if not before.start.startswith("-"):  # else a value of an option, mostly data
                call.passes_path(one)
    else:
        raise call.fail(value, "a module")


def _shell(call: Call, arguments: Arguments) -> None:
    words = list(arguments.operands_of("q"))
    while words and words[0].start.startswith("-"):
        found = _SHELL_FLAGS.fullmatch(words[0].text or "?")
        if words[0].text == "-s" or found is None or (found[1] and not words[1:]):
            break
        if found[1] == "c":
            return _script(call, words[1])
        if found[1] == "o" and words.pop(1).text != "pipefail":
            break
        words.pop(0)
    if words and words[0].text not in ("-", "-s"):
        if words[0].start.startswith(("-", "+")):
            raise call.fail(words[0], f"an option of {call.name}")
        call.runs(words[0])
        return call.passes_arguments(words[1:])
    if call.stdin.text is None:
        return _piped(call)
    return _script(call, known(call.stdin.text))


def _script(call: Call, value: Value) -> None:
    if call.name == "sh" and value.text is not None and _ONLY_BASH.search(value.text):
        raise call.fail(value, "bash syntax in a script for sh")
    call.script(value)


def _fetched_tool(call: Call, arguments: Arguments) -> None:
    words = arguments.operands_of("a")
    found = re.fullmatch(r"([\w-]+)(?:@(?:latest|\d[\w.]*))?", (words[0].text or "") if words else "")
    if found is None or found[1] not in _TOOLS["uvx" if call.name in ("uvx", "uv") else "npx"]:
        call.report("package.run", words[0].shown if words else "")
        return
    call.report("package.install")
    call.command([known(found[1]), *words[1:]])


def _node(call: Call, arguments: Arguments) -> None:
    if not arguments.operands_of("x") and not arguments.options:
        _piped(call)


def _tsx(call: Call, arguments: Arguments) -> None:
    """A word without a dot may be a command of its own, such as `watch`, and the code stands behind it."""
    if any("." not in value.start for value in arguments.operands_of("x")[:1]):
        raise call.fail(None, "a command of tsx")


def _uv_run(call: Call, arguments: Arguments) -> None:
    words = arguments.operands_of("a")
    if not words:
        raise call.fail()
    if arguments.has("-m"):
        _python_module(call, words[0], words[1:])
    elif arguments.has("--script"):
        call.command([known("python"), *words])
    else:
        call.command([known("python"), *words] if (words[0].text or "").endswith(".py") else words)


def _npm_package(call: Call, arguments: Arguments) -> None:
    """A word with a slash is a folder of the workspace only if it begins with a dot, and else one of a forge."""
    for value in arguments.operands_of("k"):
        text = value.start
        if ("/" in text and not text.startswith(("@", "./", "../")) and not text.endswith(".tgz")) or (
            ":" in text or "#" in text
        ):
            call.report("package.install-url", value.shown)


HANDLERS: dict[str, Handler] = {
    "python": _python,
    "shell": _shell,
    "fetched_tool": _fetched_tool,
    "node": _node,
    "tsx": _tsx,
    "uv_run": _uv_run,
    "npm_package": _npm_package,
}
