"""Package managers, compilers, test runners and interpreters. See `core.security.command.table`."""

from __future__ import annotations

_PYTEST = (
    " -qvxslhV -# -k= -m= -n= -r= -W= -p= --co --collect-only --lf --last-failed --ff --failed-first --nf --sw"
    " --stepwise --maxfail= --tb="
    " --durations= --durations-min= --cov? --cov-report= --cov-config=r --cov-fail-under= --no-cov --cov-append"
    " --cov-branch --junitxml=w --junit-xml=w"
    " --timeout= --timeout-method= --ignore= --ignore-glob= --deselect= --strict-markers --strict-config"
    " --no-header --no-summary --showlocals"
    " --exitfirst --verbose --quiet --capture= --color= --markers --fixtures --setup-show --runxfail"
    " --import-mode= --rootdir=C --dist= --numprocesses="
    " --maxprocesses= --reruns= --reruns-delay= --snapshot-update --benchmark-only --benchmark-skip"
    " --disable-warnings --asyncio-mode= --random-order"
    " --random-order-seed= --html=w --self-contained-html --forked --version --help --cache-clear"
    " --doctest-modules --doctest-glob= --headed --headless"
    " --no-headless --slow-mo= --slowmo= --base-url= --browser= --runslow --run-slow --update-snapshots --count="
    " --seed= --show-capture= --full-trace"
    " --log-cli-level= --log-level= --log-file=w --pyargs --looponfail --numprocesses? --testmon --picked --lfnf="
    " --no-cov-on-fail --cov-context="
)
_CARGO = (
    " -qvprhFj -p= -F= -j= --quiet --verbose --release --package= --workspace --all --exclude= --lib --bin= --bins"
    " --example= --examples --test= --tests"
    " --bench= --benches --all-targets --features= --all-features --no-default-features --target= --target-dir=w"
    " --profile= --manifest-path=r"
    " --message-format= --locked --offline --frozen --jobs= --keep-going --no-run --no-fail-fast --doc --color="
    " --timings? --ignore-rust-version"
    " --future-incompat-report --fix --allow-dirty --allow-staged --no-deps --open --check"
    " --document-private-items --broken-code --edition"
    " --unit-graph --version --help --list --all-features --release -r"
)
_NPM = (
    " -gDPEOSfySwqdlsi -w= -C=C --global --save-dev --save-exact --save --no-save --save-prod --save-optional"
    " --save-peer --dev --production --force"
    " --legacy-peer-deps --omit= --include= --ignore-scripts --no-audit --no-fund --no-optional --prefer-offline"
    " --offline --frozen-lockfile"
    " --immutable --no-frozen-lockfile --silent --quiet --verbose --loglevel= --workspace= --workspaces"
    " --if-present --dry-run --json --yes --no-package-lock"
    " --package-lock-only --prefix=C --strict-peer-deps --depth= --long --parseable --all --latest --interactive"
    " --recursive --filter= --filter-prod="
    " --parallel --stream --if-present --no-bail --exact --shamefully-hoist --registry=u --audit-level="
    " --production? --cwd=C --watch --hot"
    " --ignore-workspace-root-check --workspace-root --no-lockfile --version --help --tilde --no-progress"
    " --no-color --color --allow-same-version"
    " --no-git-tag-version --preid= --access= --tag= --otp= -r -y"
)
_PIP = (
    " -qvUI -t=w -d=w -w=w -# -r=r -c=r -e=r --requirement=r --constraint=r --editable=r --upgrade --quiet"
    " --verbose --user"
    " --pre --no-deps --force-reinstall --ignore-installed"
    " --no-cache-dir --no-build-isolation --break-system-packages --upgrade-strategy= --only-binary= --no-binary="
    " --prefer-binary --python-version="
    " --platform= --target=w --dry-run --no-input --disable-pip-version-check --index-url=u -i=u"
    " --extra-index-url=u --find-links=r -f=r --no-index"
    " --trusted-host= --timeout= --retries= --root-user-action= --require-hashes --use-pep517 --progress-bar="
    " --report=w -y --yes --cert="
    " --outdated --format= --exclude= --not-required --local --path= --freeze --files --all --index= --proxy=u"
    " --no-warn-script-location"
)
_UV = (
    " -qvpnPUhV -p= -r=r -c=r -e=r -P= -n -U -f=r -o=w -w= -i=u -b=r --quiet --verbose --python= --directory=C"
    " --project=C --frozen --locked --no-sync --offline --no-cache --refresh"
    " --all-extras --extra= --no-extra= --group= --only-group= --no-group= --all-groups --no-default-groups --dev"
    " --no-dev --only-dev --with= --with-editable=r"
    " --with-requirements=r --package= --all-packages --isolated --active --exact --no-project --script --seed"
    " --system --upgrade --upgrade-package="
    " --reinstall --reinstall-package= --resolution= --prerelease= --index-strategy= --index-url=u"
    " --extra-index-url=u --index= --default-index=u --find-links=r"
    " --no-index --no-build --no-binary --no-build-isolation --link-mode= --compile-bytecode --no-editable"
    " --editable --inexact --no-install-project"
    " --no-install-workspace --output-file=w --format= --no-hashes --no-header --no-annotate --universal"
    " --requirement=r --requirements=r --constraint=r --constraints=r --override=r"
    " --optional= --tag= --branch= --rev= --raw --raw-sources --lfs --bounds= --workspace --no-workspace --app"
    " --lib --bare --name= --description= --no-readme"
    " --no-package --build-backend= --vcs= --author-from= --pin-python --no-pin-python --python-preference="
    " --python-platform= --managed-python --no-managed-python --allow-existing"
    " --clear --prompt= --wheel --sdist --out-dir=w -o=w --all-platforms --all-versions --only-installed"
    " --only-downloads --force --default --no-sources"
    " --bump= --short --dry-run --output-format= --depth= --prune= --invert --outdated --show-sizes --no-dedupe"
    " --strict --cert= --from= --with-executables-from="
    " --exclude-newer= --env-file=r --no-env-file --no-progress --color= --native-tls --preview"
    " --preview-features= --cache-dir=w --allow-insecure-host= --help --version --check --fix --target-version="
    " --emit-index-url --generate-hashes --no-strip-extras --no-emit-package= --no-emit-project --torch-backend="
    " --user --break-system-packages --no-deps --target=w --prefix=w --username= --show-version-specifiers"
    " --show-paths --show-with"
)
_POETRY = (
    " -qvnEDG -E= -G= -C=C --quiet --verbose --no-interaction --no-root --no-dev --only= --with= --without="
    " --extras= --all-extras --all-groups --sync --dry-run --group= --dev --allow-prereleases"
    " --lock --no-cache --no-plugins --directory=C --project=C --format= --output= --tree --latest --outdated"
    " --short --version --help --source= --optional --editable --regenerate --no-directory --name= --python="
    " --compile --only-root"
)
_RUFF = (
    " -qvsenh --fix --unsafe-fixes --no-fix --diff --watch --check --show-files --show-settings --statistics"
    " --select= --ignore= --extend-select= --extend-ignore= --fixable= --unfixable="
    " --per-file-ignores= --exclude= --extend-exclude= --respect-gitignore --force-exclude --line-length="
    " --target-version= --output-format= --format= --preview --no-preview --no-cache --cache-dir=w --config="
    " --isolated --exit-zero --exit-non-zero-on-fix --add-noqa --quiet --verbose --silent --stdin-filename="
    " --output-file=w --explain --all --help --version --clean --range= --show-fixes --show-source --ignore-noqa"
    " -o=w --no-respect-gitignore"
)

_TOOL = (
    " -wcdiuqvhVsnopPTeEfaDbgrlxjmCR --watch --run --fix --check --write --config=x -c=x --project= --noEmit"
    " --version --help --coverage --reporter= --bail? --verbose --silent --quiet --passWithNoTests --ci"
    " --testPathPattern= --testNamePattern= --grep= --host= --port= --reload --workers= --ext= --format="
    " --max-warnings= --cache --no-cache --mode= --outDir= --sandbox --dev --headed --headless --ui --debug"
    " --list --updateSnapshot -u --silent --filter= --strict --out= --watchAll? --runInBand --detectOpenHandles"
    " --forceExit --maxWorkers= --env= --app= --factory --log-level= --reload-dir= --reload-exclude="
    " --reload-include= --ws= --bind= --no-browser --allow-root --ip= --open? --pretty --skipLibCheck"
    " --incremental --declaration --emitDeclarationOnly --build --target= --module= --strict? --jsx="
    " --esModuleInterop --outFile= --allowJs --all --parallel --no-bail --affected --base= --head="
    " --skip-nx-cache -t= -p= -b= -j= --timeout= --retries= --update-snapshots --update --log-order="
    " --output-logs= --concurrency= --no-daemon --force --continue --dry? --only --ignore-path="
    " --ignore-pattern= --no-error-on-unmatched-pattern --list-different --changed --related"
)

TABLE = f"""
  python python3 python2 python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 pypy3 |
        -uBIsSEOqbVvh -c=z -m=z -X= -W= --version --help | a | !python
  pip pip3 | -qvV --quiet --verbose --version --help --disable-pip-version-check --no-cache-dir --python=
        --no-input | @pip
  uv | -qvVhn --quiet --verbose --version --help --no-cache --offline --directory=C --project=C --no-progress
        --color= --preview --no-config --native-tls --cache-dir=w | @uv
  uvx | {_UV} | a | !uvx
  npx bunx pnpx | -qyp --yes --no --quiet --no-install --package= -p= --version --help | a | !uvx
  pipx | --version --help --quiet | @pipx
  npm pnpm yarn bun | {_NPM} | @npm
  nvm fnm volta asdf mise rbenv pyenv rustup sdk | --version --help --silent --default --profile= -y | t* | !installer
  brew apt apt-get dnf yum apk pacman zypper snap port nix choco | -yqfVu --yes --quiet --cask
        --no-install-recommends --assume-yes --installed --upgradable --no-cache --classic --version --help -S | t*
        | !system_packages
  dpkg rpm apt-cache apt-mark dpkg-query | -lLsSpqaivf --list --listfiles --search --status
        --print-architecture --version | t* | !system_packages
  conda mamba micromamba | -nycf -n= -c= -f=r -p= --name= --channel= --file=r --yes --quiet --json --all
        --version --help --prefix=w | t* | !installer
  poetry pdm hatch pipenv rye | {_POETRY} | @poetry
  cargo | -qvV --version --list --quiet --verbose --locked --offline --frozen --color= --manifest-path=r
        --help | @cargo
  rustc rustfmt clippy-driver | -vVO -o=w --edition= --check --version --test --crate-type= --crate-name=
        --emit= --out-dir=w --explain= -g | r* | run.project
  go | | @go
  gofmt goimports gofumpt golangci-lint staticcheck | -wlsde -r= --fix --timeout= --verbose -v --help
        --version | t* | run.project
  make gmake | -BbknqstwdeS -# -j? -l? -C=C -f=x -o= -W= --directory=C --file=x --makefile=x --jobs?
        --always-make --dry-run --just-print --keep-going --question --silent --quiet --print-directory
        --no-print-directory --touch --debug? --output-sync? --version --help --no-builtin-rules
        --warn-undefined-variables --load-average? | t* | run.project !make
  tox nox | -lvqrR -e= -s= -p= -f=x --list --version --help --env= --session= --sessions= --parallel?
        --recreate -k= | t* | run.project !make
  just task ninja mage rake invoke | -lvqkn -f=x -C=C -j= --list --verbose --quiet
        --dry-run --summary --show= --version --help --jobs= --choose --unstable --yes --justfile=x
        --working-directory=C | t* | run.project !make
  ctest | -NVQ -j= -C= -R= -E= -L= -I= --output-on-failure --test-dir=C --parallel= --rerun-failed --verbose
        --preset= | | run.project
  cmake meson | -NV -S=C -B=w -G= -D= -j= --build=w --install=w --preset= --target=
        --config= --parallel? --verbose --output-on-failure --test-dir=C --version --help --fresh --list-presets
        --clean-first --workflow | t* | run.project !cmake
  gcc cc g++ c++ clang clang++ | -cSEvgwsP -o=w -I=r -L=r -l= -O? -W? -D= -U= -:std= -x= -f? -m? -M? -g?
        --version --help -:pthread -:shared -:static -:fPIC -:Wall -:Wextra -:Werror -:pedantic -:dumpversion
        -:dumpmachine | r* | run.project !gcc
  nm objdump readelf size | -tpxdShalWsrCDguv --version --help --demangle --defined-only --dynamic --headers
        --symbols --all | r* | !strict
  java javac mvn gradle gradlew kotlinc sbt ant | -qoUBeXNv --version --help -:version --quiet --offline
        --no-daemon --info --stacktrace -:DskipTests --batch-mode -:am -p= -x= -P= -T= --parallel --continue
        --rerun-tasks --console= | t* | run.project !gradle
  node nodejs deno ts-node tsx bun-x | -hv --version --help --watch --test --enable-source-maps
        --trace-warnings --no-warnings --max-old-space-size= --experimental-strip-types --experimental-vm-modules
        -:allow-read --inspect? --stack-trace-limit= | x? | !node
  ruby php perl lua Rscript julia swift elixir | -vwW --version | x
  ghc stack cabal mix rebar3 zig dotnet swift-build crystal nim opam dune bazel buck2 pants xcodebuild flutter
        dart composer bundle gem rails | --version --help | t* | !toolchain
  bash sh zsh dash ksh | -euxlnvsi -c=z -o= --login --norc --noprofile --posix --version --help | a | !shell
  pytest py.test | {_PYTEST} | t* | run.project !pytest
  ruff | {_RUFF} | t* | run.project
  mypy pyright basedpyright ty pyre pylint flake8 black isort autopep8 autoflake yapf bandit vulture pyupgrade
        docformatter interrogate codespell pydocstyle radon lint-imports deptry djlint sqlfluff yamllint mdformat
        reuse prek typos zizmor | -vqhlpmciwfsraAjdSCntNE -l= -p= -m= -t= -j= --strict --check --diff --verbose
        --quiet --version --help --exclude= --include= --extend-exclude= --line-length= --target-version=
        --ignore-missing-imports --python-version= --install-types --non-interactive --show-error-codes --pretty
        --no-error-summary --package= --module= --disable= --enable= --max-line-length= --ignore= --select=
        --extend-ignore= --statistics --count --show-source --profile= --fast --safe --in-place --recursive
        --remove-all-unused-imports --remove-unused-variables --skip= --output-format= --jobs= --fail-under=
        --rcfile=r --config=r --config-file=r --settings-path=r --project=r --python= --outputjson --stats --level=
        --no-incremental --follow-imports= --warn-unused-ignores --no-color-output --explicit-package-bases
        --namespace-packages --write-changes --fix --py38-plus --py39-plus --py310-plus --py311-plus --filter-files
        --color --no-color --preview --force-exclude --error-on-warning --all-files --max-complexity= --show-config
        | t* | run.project
  coverage | | @coverage
  pre-commit | -av --all-files --files --hook-stage= --show-diff-on-failure --verbose --color= --version
        --help --hook-type= -t= --from-ref= --to-ref= --config=r -c=r --install-hooks --overwrite --freeze --repo=
        --bleeding-edge -f | t* | run.project !tool
  tsc eslint prettier vitest jest mocha vite next webpack rollup esbuild turbo nx playwright cypress stylelint
        biome tailwindcss astro nuxt ng vue-cli-service react-scripts storybook changeset knip oxlint
        tsup parcel svelte-check wrangler-dev electron-forge nodemon http-server serve docusaurus hugo
        jekyll mkdocs sphinx-build textual marimo jupyter streamlit uvicorn gunicorn flask django-admin fastapi
        alembic celery hypercorn daphne airflow dbt gradio chainlit locust scrapy build bumpversion towncrier
        commitizen cz git-cliff nbstripout buf protoc sqlc templ goreleaser richpixels textual-web posting
        harlequin | {_TOOL} | t* | run.project !tool
  twine | --repository= --verbose -r= | t* | !twine
  shellcheck shfmt hadolint actionlint | -xdwlsi -f= -s= -e= -S= -i= --severity= --shell= --exclude= --format=
        --version --help | r* | !strict
  virtualenv | -qp -p= --python= --clear --system-site-packages --version --help | w | package.install
  mkdocs | -qvs -f=r -d=w -a= --config-file=r --site-dir=w --clean --strict --dev-addr= --no-livereload
        --dirty --version --help | t* | run.project
"""
_INSTALL = "| package.install run.project !package_address"
SUBCOMMANDS = {
    "pip": f"""
~ list freeze show check search index config debug cache inspect help | {_PIP} | t*
  install download wheel uninstall | {_PIP} | t* {_INSTALL}
""",
    "uv": f"""
~ version self help generate-shell-completion | {_UV} | t*
  add remove sync lock init build venv export tree pin | {_UV} | t* {_INSTALL}
  run | {_UV} -m | a | package.install !uv_run
  pip | {_UV} | @uv_pip
  tool | {_UV} | @uv_tool
  python cache auth | {_UV} | t* | package.install
  format | {_UV} | t* | run.project
""",
    "uv_pip": f"""
  install sync compile uninstall | {_UV} | t* {_INSTALL}
~ list freeze show check tree | {_UV} | t*
""",
    "uv_tool": f"""
  run | {_UV} | a | !uvx
  install upgrade uninstall | {_UV} | t* {_INSTALL}
~ list dir update-shell | {_UV} | t*
""",
    "pipx": f"""
  install upgrade uninstall inject reinstall upgrade-all | {_PIP} | t* {_INSTALL}
~ list environment | {_PIP} | t*
  run | {_UV} --spec= | a | !uvx
""",
    "npm": f"""
- | {_NPM} | | package.install run.project
~ ls list ll view info show outdated why explain audit fund help get root prefix bin search doctor ping
        whoami licenses docs home bugs repo completion query diff | {_NPM} | t*
  install i ci add remove rm uninstall un update upgrade up dedupe prune link unlink rebuild import create
        init set version pack isntall in cache store env self-update approve-builds fetch patch-commit | {_NPM} | t*
        {_INSTALL}
  run run-script rum test t tst start stop restart build dev lint check format typecheck test:unit watch
        preview serve clean prepare bench e2e storybook deploy-docs ci:test | {_NPM} | x? | run.project !npm_run
  config | {_NPM} --location= | t* | !npm_config
  publish unpublish deprecate dist-tag owner access | {_NPM} | t* | package.publish
  exec x dlx | {_NPM} | a | !uvx
  token login adduser logout | {_NPM} | t* | secret.keyring
""",  # noqa: S608  # no SQL
    "poetry": f"""
~ show check about version env config search list help self cache source --version | {_POETRY} | t*
  install update add remove lock sync build export init new | {_POETRY} | t* {_INSTALL}
  publish | {_POETRY} | t* | package.publish
  run shell | {_POETRY} | $ |
""",
    "cargo": f"""
~ tree metadata search info pkgid locate-project verify-project version help login-help report | {_CARGO}
        -i= -e= --depth= --invert= --edges= --duplicates --format-version= --no-dedupe --limit= --prefix= -d | t*
  build b check c test t bench doc d clippy fmt fix clean rustc rustdoc nextest miri udeps machete deny audit
        outdated expand llvm-cov insta shear hack msrv semver-checks flamegraph tarpaulin mutants watch-check sort
        spellcheck bloat tauri leptos trunk | {_CARGO} -A= -W= -D= --accept --review --unreferenced= --test-runner=
        -E= --status-level= --failure-output= --final-status-level= --partition= --retries= --run-ignored=
        --profile= --include-ignored --lcov --html --output-path=w --summary-only | x? | run.project !cargo
  run r | {_CARGO} | x? | run.project !cargo
  add remove rm update fetch generate-lockfile vendor install uninstall new init binstall upgrade | {_CARGO}
        --git=u --path=r --branch= --rev= --tag= --version= --force --dev --build --optional --rename= --precise=
        --aggressive --edition= --name= --vcs= -f --root=w --dry-run --no-track --debug | t* {_INSTALL}
  publish yank owner | {_CARGO} --dry-run --token= | t* | package.publish
""",
    "go": """
~ version env list doc help bug | -:json -:m -:u -:f= -:deps -:test -:mod= -:versions -:short -:all -:src
        -:e -:compiled -:export -:find -:tags= | t* | !go_env
  run | -:v -:x -:race -:tags= -:ldflags= -:gcflags= -:trimpath -:mod= | a | run.project !go_flags
  build install test vet generate fmt fix | -:v -:x -:n -:a -:i -:race -:cover -:coverprofile=w -:covermode=
        -:coverpkg= -:run= -:bench= -:benchmem -:benchtime= -:count= -:timeout= -:short -:parallel= -:p= -:tags=
        -:ldflags= -:gcflags= -:trimpath -:mod= -:o=w -:json -:failfast -:cpu= -:list= -:shuffle= -:skip= -:fuzz=
        -:fuzztime= -:work -:msan -:asan -:buildvcs= -:c -:vet= -:cpuprofile=w -:memprofile=w -:blockprofile=w
        -:trace=w -:outputdir=w -:modfile=r -:fullpath -:buildmode= -:pgo= | t* | run.project !go_flags
  get | -:u -:d -:t -:v -:x -:tool | t* | package.install run.project !package_address
  mod work clean | -:v -:x -:n -:go= -:compat= -:e -:diff -:m -:json -:require= -:replace= -:dropreplace=
        -:droprequire= -:module= -:fmt -:print -:cache -:testcache -:modcache -:r -:i -:reuse= -:o=w -:use=
        -:toolchain= | t* | package.install
  tool | -:html= -:func= -:o=w -:http= -:top -:n -:json -:text | t* | run.project
""",
    "coverage": """
  run | -apm --branch --source= --append --parallel-mode --omit= --include= -m | a | !coverage
~ report html xml json combine erase debug lcov | -imqkd -o=w -d=w --show-missing --skip-covered
        --fail-under= --include= --omit= --format= --precision= --keep --skip-empty --rcfile=r --data-file=r --sort=
        | t*
""",
}
