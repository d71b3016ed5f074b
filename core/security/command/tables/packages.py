"""Package managers, compilers, test runners and interpreters. See `core.security.command.table`."""

from __future__ import annotations

_INDEX = (
    "/https:\\x2f\\x2f(?:pypi\\.org|test\\.pypi\\.org|download\\.pytorch\\.org|registry\\.npmjs\\.org)"
    "(?:\\x2f[\\w.\\x2f-]*)?/"
)
_VERSION = "/(?:[a-z]+@?)?[<>=~]*\\d[\\w.]*|python/"
_NAME = "/[\\w.-]+/"
_NAMES = "/[\\w.,-]+/"
_PIP = (
    f" -qUvy -r=r -c=r -e=k --requirement=r --constraint=r --editable=k --upgrade --quiet --verbose --user --pre"
    f" --no-deps"
    f" --no-cache-dir --break-system-packages --force-reinstall --no-build-isolation --index-url={_INDEX} -i={_INDEX}"
    f" --extra-index-url={_INDEX} --outdated --format={_NAME} --yes --dry-run"
)
_UV = (
    f" -qvpnPU -p={_VERSION} -r=r -c=r -o=w --quiet --verbose --python={_VERSION} --frozen --locked --no-sync --offline"
    f" --no-cache --refresh --all-extras --extra={_NAME} --group={_NAME} --only-group={_NAME} --no-group={_NAME}"
    f" --all-groups"
    f" --dev --no-dev --only-dev --with=k --package={_NAME} --all-packages --isolated --no-project --seed --system"
    f" --upgrade"
    f" --upgrade-package=k --reinstall --reinstall-package=k --resolution={_NAME} --prerelease={_NAME}"
    f" --index-url={_INDEX}"
    f" --extra-index-url={_INDEX} --default-index={_INDEX} --index={_INDEX} --no-index --compile-bytecode --no-editable"
    f" --no-install-project --output-file=w --format={_NAME} --no-hashes --no-header --universal --requirements=r"
    f" --constraints=r --optional={_NAME} --tag={_NAME} --branch={_NAME} --rev={_NAME} --lfs --app --lib --bare"
    f" --name={_NAME}"
    f" --description=t --no-package --author-from={_NAME} --vcs={_NAME} --pin-python --clear --wheel --sdist"
    f" --out-dir=w"
    f" --all-platforms --all-versions --only-installed --managed-python --no-managed-python --force --no-sources"
    f" --bump={_NAME} --short --dry-run --outdated --depth={_NAME} --with-executables-from=k --preview --help --version"
    f" --script=r"
)
_JS = (
    " -gDESP --global --save-dev --save-exact --save --dev --legacy-peer-deps --no-audit --no-fund --prefer-offline"
    " --force"
    " --frozen-lockfile --immutable --silent --ignore-scripts --production --yes -y --depth=/\\d+/ --json --omit=/\\w+/"
)
_PYTEST = (
    " -qvxslh -# -k= -m= -n= -r= -W= --co --collect-only --lf --last-failed --ff --failed-first --nf --sw --maxfail="
    " --tb= --durations= --cov? --cov-report= --no-cov --cov-append --junitxml=w --timeout= --ignore= --deselect="
    " --strict-markers --showlocals --exitfirst --verbose --quiet --capture= --color= --markers --fixtures --runxfail"
    " --dist= --snapshot-update --update-snapshots --benchmark-only --disable-warnings --asyncio-mode= --version --help"
    " --doctest-modules --headed --headless --no-headless --slow-mo= --slowmo= --base-url=t --browser= --runslow"
    " --run-slow --count= --seed= --log-cli-level= --log-level= -p=/no:\\w+/ --full-trace --cache-clear --stepwise"
)
_CARGO = (
    " -qvr -p= -F= -j= --quiet --verbose --release --package= --workspace --all --exclude= --lib --bin= --bins"
    " --example="
    " --examples --test= --tests --bench= --benches --all-targets --features= --all-features --no-default-features"
    " --target="
    " --profile= --manifest-path= --locked --offline --frozen --jobs= --no-run --no-fail-fast --doc --fix --allow-dirty"
    " --allow-staged --no-deps --open --check --message-format= --accept --review --test-runner=/\\w+/"
    " --failure-output="
    " --status-level= --title= -A= -W= -D="
)
_GO = (
    " -:v -:x -:race -:cover -:coverprofile=w -:covermode= -:run= -:bench= -:benchmem -:count= -:timeout= -:short"
    " -:parallel="
    " -:tags= -:trimpath -:mod=/vendor|mod|readonly/ -:json -:failfast -:shuffle= -:skip= -o=w"
    " -:ldflags=/(?:(?:-[sw]|-X\\s[\\w.\\x2f]+=[\\w.+-]+)\\s?)+/ -:gcflags=/(?:all=)?(?:-[Nlm]\\s?)+/"
)
_GO_PACKAGE = "/[\\w.-]+(?:\\x2f[\\w.-]+)*(?:@[\\w.-]+)?/"
_SCRIPT = "build dev lint check format typecheck watch preview serve clean prepare test t tst start stop restart"
_TARGET = "/[\\w][\\w.%:\\x2f-]*|(?!MAKE|SHELL)\\w+=(?:true|false|yes|no|on|off|debug|release|[\\d.]+|--[a-z][a-z-]*)?/"

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
  rustc | --version |
  gofmt | -wlsd | t* | run.project
  make gmake | -Bknsi -j? --dry-run --silent --jobs? --always-make --keep-going --version -C=C --directory=C -f=x |
        {_TARGET}* | run.project
  just task | --list -l | /[\\w:-]+/? /[\\w.,:@%+=\\x2f-]+/* | run.project
  tox | -p -e=/[\\w,.-]+/ --version | | run.project
  node nodejs | -v --version --test | x? | run.project !node
  tsx ts-node | --version | x | run.project
  bash sh | | q | !shell
  pytest py.test | {_PYTEST} | t* | run.project
  ruff | -qsenh --fix --unsafe-fixes --no-fix --diff --watch --check --statistics --select= --ignore=
        --extend-select= --config=
        --exclude= --line-length= --target-version= --output-format= --format= --preview --no-cache --exit-zero
        --explain
        --show-files --show-settings --clean --respect-gitignore --version --help --quiet --verbose | t* | run.project
  mypy pyright basedpyright ty flake8 pylint black isort vulture codespell lint-imports yamllint | -qvh --version --help
        --strict --check --diff --quiet --verbose --exclude= --line-length= --ignore= --select= --profile=
        --python-version=
        --ignore-missing-imports --show-error-codes --max-line-length= --check-only | t* | run.project
  tsc eslint prettier vitest jest mocha | -w --watch --run --fix --check --write --noEmit --version --help
        --coverage --bail
        --silent --quiet --ci --ext= --max-warnings= --cache --runInBand --passWithNoTests -t= | t* | run.project
  pre-commit prek | --version | @pre-commit | run.project
  mkdocs | --version | @mkdocs | run.project
  marimo | --version | @marimo | run.project
  jupyter | --version | /lab|notebook/ | run.project net.listen
  fastapi | --version | /dev|run/ y* | run.project net.listen
  uvicorn | --host= --port= --reload --workers= | /[\\w.]+:\\w+/ | run.project net.listen
  textual | --version | /run|console/? y* | run.project
  twine | | t* | package.publish
"""
_INSTALL = "| package.install run.project"
SUBCOMMANDS = {
    "pip": f"""
  install | {_PIP} | k* {_INSTALL}
  uninstall | {_PIP} | {_NAME}* {_INSTALL}
  list freeze show check | {_PIP} | {_NAME}* | run.project
""",
    "uv": f"""
  add remove sync lock build export tree | {_UV} | k* {_INSTALL}
  venv | {_UV} | k* {_INSTALL} !uv_venv
  init | {_UV} | w? {_INSTALL}
  version help | {_UV} | {_NAME}* | run.project
  run | {_UV} -m | a | package.install run.project !uv_run
  pip | | @uv_pip | run.project
  tool | | @uv_tool | run.project
  python | {_UV} | /find|list|install|pin|upgrade/ /[\\w.<>=+-]+/* {_INSTALL}
""",
    "uv_pip": f"""
  install sync uninstall | {_UV} -e=k --editable=k | k* {_INSTALL}
  compile | {_UV} | r* {_INSTALL}
  list freeze show tree check | {_UV} | {_NAME}* | run.project
""",
    "uv_tool": f"""
  run | {_UV} | a | run.project !fetched_tool
  install upgrade uninstall | {_UV} | k* {_INSTALL}
  list dir | {_UV} | | run.project
""",
    "npm": f"""
- | {_JS} | | package.install run.project
  install i ci add uninstall remove rm update upgrade | {_JS} | k* | package.install run.project !npm_package
  run | {_JS} | /[\\w:.-]+/? y* | run.project
  {_SCRIPT} | {_JS} | y* | run.project
  ls list outdated | {_JS} | {_NAME}* | run.project
  version | | /major|minor|patch/? | run.project
  publish | | t* | package.publish
""",
    "poetry": f"""
  install update lock sync show check build version | -qvn --no-root --sync --with={_NAMES} --without={_NAMES}
        --only={_NAMES}
        --extras={_NAME} --all-extras --dry-run | {_NAME}* {_INSTALL}
  add remove | --group={_NAME} --dev -G={_NAME} | k* {_INSTALL}
  run | | $ | run.project
  publish | | t* | package.publish
""",
    "cargo": f"""
  build b check c test t bench doc clippy fmt clean nextest insta shear metadata tree | {_CARGO} | y* | run.project
  run r | {_CARGO} | v | run.project
  add remove update fetch | {_CARGO} | /[\\w@.=-]+/* {_INSTALL}
  install | --locked --version= --force | /[\\w@.=-]+/* {_INSTALL}
  new init | --lib --bin --name= | w? {_INSTALL}
  publish | {_CARGO} | t* | package.publish
""",
    "go": f"""
  version | |
  env | | /\\w+/* | run.project
  run | {_GO} | /\\.|\\.\\x2f[\\w\\x2f-]*(?:\\.go)?|[\\w\\x2f-]+\\.go/ v | run.project
  build test vet fmt generate list | {_GO} -:u -:m | y* | run.project
  install get | {_GO} -:u -:t | {_GO_PACKAGE}* {_INSTALL}
  mod | -:go=/[\\d.]+/ | /tidy|download|vendor|verify|graph|edit/ /go\\.mod/? {_INSTALL}
  tool | -:html=r -o=w -:func=r | /cover/ | run.project
""",
    "pre-commit": """
  run | -a --all-files --show-diff-on-failure --files | t* | run.project
""",
    "marimo": """
  edit run | --sandbox --headless | y? | run.project net.listen
""",
    "mkdocs": """
  build serve | -f= --strict --clean | | run.project
""",
}
"""The tables of subcommands by the names that operands `@name` have."""
