"""The table of programs: each with its options and operands, as far as their effects are fully known.

`table.py` describes the language. To teach a program, add a line; to teach an option, write it there. What is not
here is not understood, so that nothing dangerous has to be listed.

Programs that make, change and remove files, of the network and of containers. See `core.security.shell.program_table`.

Git. See `core.security.shell.program_table`. What makes git run a program of somebody's choice is in no row.

Package managers, compilers, test runners and interpreters. See `core.security.shell.program_table`.

Programs that look, search and print, and those that start others. See `core.security.shell.program_table`.
"""

from __future__ import annotations

from core.security.shell.program_table import rows

_BUILD = (
    " -q -t= -f=r --tag= --file=r --build-arg= --target= --no-cache --pull --load --platform= --progress=/\\w+/"
    " --label= --quiet --rm"
)
_CONTEXT = "/\\.\\x2f?|(?:\\.\\x2f)?\\w[\\w-]*(?:\\x2f[\\w.-]*)*/"
_WORD = "/[\\w.@:\\x2f$-]+/"

TABLE = """
~ mkdir | -pv -m=/0?[0-7][0145][0145]/ --parents --verbose | m*
~ touch | -acm | w*
~ rmdir | -pv | d*
~ unlink | | d
~ rm | -rRfivId --recursive --force --verbose | t* | !rm
  cp | -afinpRruvLPT --recursive --verbose --force --no-clobber --archive | t* | !copy
  mv | -finuv --verbose --force --no-clobber | t* | !copy
  ln | | q | !link
  chmod | -v | /0?[67][0145][0145]|[ua]?[+-]x|u[+-][rwx]+|g?o?-[rwx]+/ t* | !chmod
  mktemp | -dqu |
  zip | -rqvj9 | w r* | !zip
  openssl | | @openssl
  curl | -sSfLIiOkvgGN#0123456 -o=w -d=t -F=t -T=t -H=t -X=t -u=t -A=t -e=t -w=/(?!.*%output)[^@]*/ -m= --output=w
        --data=t
        --data-raw=t --data-binary=t --data-urlencode=t --json=t --form=t --upload-file=t --header=t --request=t
        --user=t --user-agent=t --referer=t --write-out=/(?!.*%output)[^@]*/ --max-time= --connect-timeout=
        --retry= --retry-delay=
        --retry-all-errors --url=u --silent --show-error --fail --fail-with-body --location --head --include
        --remote-name --insecure --verbose --get --no-buffer --compressed --http1.1 --http2 --tlsv1.2 --tlsv1.3 --ipv4
        --proto=/=https/ --create-dirs --version --help | u* | !curl
  wget | -qcNv -O=w -P=w -U=t --output-document=w --directory-prefix=w --quiet --no-verbose --show-progress --continue
        --tries= --timeout= --header=t --user-agent=t --no-check-certificate --spider --method=t --post-data=t
        --post-file=t --version | u* | !curl
  docker podman | --version | @docker
  docker-compose | --version | @compose
  kubectl | --version | @kubectl
  gcloud | | @gcloud
"""
FILES_SUBCOMMANDS = {
    "openssl": """
  rand | -:hex -:base64 | /\\d+/
  version | |
""",
    "docker": f"""
  run | -ditP -e=t -p= -w= -u=/[\\w:$-]+/ --detach --interactive --tty --rm --init --name= --env=t --publish= --workdir=
        --entrypoint= --platform= --memory= --cpus= -v= --volume= --pull=/\\w+/ | a | container.run !docker_run
  build | {_BUILD} | {_CONTEXT} | container.run run.project
  buildx | | @docker_buildx
  compose | | @compose
  container image volume network system | | @docker_group
  ps images logs inspect version info top port diff history | -afqnst -n= --all --follow --tail= --format= --filter=
        --quiet --no-trunc | t* | container.run
  pull start stop restart tag | | {_WORD}* | container.run
  rm rmi kill prune | -af | t* | destroy.containers
  push | | t* | package.publish
""",
    "docker_buildx": f"""
  build | {_BUILD} | {_CONTEXT} | container.run run.project
""",
    "docker_group": f"""
  ls ps inspect df info logs | -aqv --all --quiet --format= --filter= | t* | container.run
  create pull | | {_WORD} | container.run
  prune rm remove | -af | t* | destroy.containers
""",
    "compose": f"""
  ps logs ls images config top port version | -aqf --follow --tail= --all --services | {_WORD}* | container.run
        run.project
  up start restart stop build pull | -d --detach --build --no-cache --wait --quiet | {_WORD}* | container.run
        run.project
  down | --remove-orphans | | container.run run.project
""",
    "kubectl": """
  get describe logs top version api-resources cluster-info explain | -Aw -n= -l= -c= -o=/(?!.*file=).*/
        --namespace= --selector=
        --output=/(?!.*file=).*/
        --all-namespaces --watch --tail= --since= --previous --container= --context= --sort-by= --show-labels | t* |
        cloud.read !cluster
""",
    "gcloud": """
  config | | /get|get-value|list/ /project|account|core\\x2fproject/? | cloud.read
""",
}
"""The tables of subcommands by the names that operands `@name` have."""


_KEYS = (
    "(?i:user\\.(?:name|email)|init\\.defaultbranch|color\\.ui|pull\\.(?:rebase|ff)|push\\.default|core\\.autocrlf"
    "|core\\.quotepath|merge\\.ff|advice\\.\\w+)"
)
_BRANCH = (
    "/(?:main|master|dev|develop|trunk|staging|HEAD|-|v\\d[\\w.-]*|[0-9a-f]{7,40}"
    "|(?:origin|feature|feat|fix|bugfix|hotfix)\\x2f[\\w.\\x2f-]+)/"
)
"""What a folder or a file is not named, for `checkout` would take its changes back."""
_REF = "[\\w@][\\w@~^{}.\\x2f-]*"
GIT_TABLE = f"""
  git | -p -C=C --no-pager --version --help -c=/{_KEYS}=[^!]*/ | @git
"""
_LOG = (
    " -# -n= -p -u -s -S= -G= -L= -i -w -b -R -M -U= -1 --oneline --graph --all --decorate? --stat? --shortstat"
    " --numstat --summary --name-only --name-status --patch --no-patch --pretty? --format= --abbrev-commit --date="
    " --since= --until= --author= --grep= --max-count= --merges --no-merges --first-parent --reverse --follow"
    " --color? --no-color --word-diff? --unified= --diff-filter= --find-renames --no-renames --ignore-all-space"
    " --ignore-space-change --cached --staged --exit-code --quiet --check --tags"
)
GIT_SUBCOMMANDS = {
    "git": f"""
  - | |
  log show diff shortlog | {_LOG} -e | t* | run.project
  reflog | -# -n= | /show/? | run.project
  status | -sbuvz --short --branch --porcelain? --untracked-files? --ignored --verbose | t* | run.project
  blame | -lswpe -L= -M -C | t* | run.project
  grep | -iIwvEFPlLnc -e=e -A= -B= -C= --cached --count --line-number --files-with-matches --ignore-case | p t* |
        run.project
  ls-files ls-tree rev-parse rev-list merge-base describe show-ref name-rev cat-file for-each-ref | -cdmosrtptez -n=
        --cached --deleted --modified --others --ignored --exclude-standard --name-only --short? --verify --abbrev-ref
        --show-toplevel --is-inside-work-tree --git-dir --count --all --tags --always --dirty --long --exact-match
        --abbrev? --format= --sort= --max-count= | t* | run.project
  add | -AuvnfN --all --update --dry-run --verbose --force | t* | run.project
  commit | -aqvs -m=t --all --message=t --amend --no-edit --quiet --verbose --signoff --allow-empty --dry-run --fixup=
        --date= --author= --no-verify -n | t* | run.project
  init | -q -b= --quiet --initial-branch= | w? | run.project
  clone | -q -b= --depth= --branch= --single-branch --quiet --recurse-submodules --recursive --filter= | n w? |
        run.project !git_clone
  fetch pull | -pqtva --all --prune --tags --quiet --rebase? --no-rebase --ff-only --depth= --unshallow --autostash |
        n? /{_REF}/* | run.project !git_fetch
  push | -fudnqv --all --tags --follow-tags --force --force-with-lease? --delete --dry-run --mirror --prune
        --quiet --set-upstream --no-verify | n* | run.project !git_push
  branch | -avrdDmq --all --list --delete --remotes --verbose --show-current --merged? --no-merged? --contains?
        --sort= --format= | /{_REF}/* | run.project !git_branch
  tag | -aln -m=t --annotate --list --message=t --sort= | /{_REF}/* | run.project
  checkout | -q -b= --quiet --detach |
        {_BRANCH}? | run.project
  switch | -q -c= --create= --quiet --detach | /-|{_REF}/? | run.project
  restore | -qSW --staged --worktree --quiet --source= | t* | run.project !git_restore
  reset | -q --soft --mixed --hard --merge --keep --quiet | /{_REF}/* | run.project !git_reset
  clean | -dfinqxX --dry-run --force | t* | destroy.work
  rm | -frnq --force --dry-run --cached --quiet | t* | run.project !git_rm
  merge | -q -m=t --no-ff --ff-only --squash --no-edit --abort --continue --no-commit | /{_REF}/* | run.project
  rebase | -q --abort --continue --autostash --onto= | /{_REF}/* | run.project
  cherry-pick revert | -n --no-edit --no-commit --abort --continue | /{_REF}/* | run.project
  stash | -uqk -m=t --include-untracked --keep-index --message=t | /push|pop|apply|list|show|save/?
        /stash@\\{{\\d+\\}}/? |
        run.project
  config | --global --local --get | /{_KEYS}/ /[^!].*/? | run.project
  remote | -v --verbose | @git_remote
  submodule | --init --recursive | /status|update|init/? | git.fetch run.project
  worktree | | @git_worktree
""",
    "git_remote": """
- | | | run.project
  get-url remove rename | | /[\\w.-]+/* | git.remote run.project
  add set-url | | /[\\w.-]+/ n | git.remote run.project !git_address
""",
    "git_worktree": """
  list | --porcelain | | run.project
  add | -q -b= --detach | n /[\\w.\\x2f-]+/? | run.project !git_worktree
  remove | -f --force | n | run.project !git_worktree
""",
}


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

PACKAGES_TABLE = f"""
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
PACKAGES_SUBCOMMANDS = {
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


TEXTS_TABLE = """
~ cat tac nl | -nbsAEvteT --number --show-all | r*
~ head tail | -qvfF -# -n= -c= --lines= --bytes= --follow | r*
~ wc | -lwcmL --lines --words --chars --bytes | r*
  less more | -NRSXFi |
~ ls | -laAbBcCdfFgGhHiklLmnNopqQrRsStTuUvwxXZ1 --all --almost-all --color? --full-time --reverse
        --group-directories-first --human-readable --recursive --sort= --time-style= --directory --help | l*
  tree | -adfhpsugDrt -L= -I= -P= --dirsfirst --prune --gitignore --noreport | l*
~ stat | -Lft -c= --format= --printf= | l*
~ file | -biL --mime --mime-type --brief | r*
~ du | -abchkLmsx0 -d= --max-depth= --human-readable --summarize --apparent-size --total --exclude= | l*
~ df | -ahHikmT --human-readable | l*
~ basename dirname | -az -s= --suffix= | t*
~ realpath readlink | -efmn --relative-to= | l*
~ md5sum sha1sum sha256sum sha512sum cksum | -bt | r*
~ cmp | -bls --silent --quiet | r r
~ diff | -abBcdeiHNnpqrsuwy -# -U= -C= -I= -x= -W= --color? --brief --recursive --unified? --exclude= --stat
        --ignore-all-space --ignore-space-change --side-by-side --suppress-common-lines | r r
~ comm | -123 | r r
~ cut | -sz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement | r*
~ paste | -sd | r*
~ column | -tnx -s= -c= | r*
~ tr | -cCds --delete --squeeze-repeats | t t?
~ seq | -w -s= | t*
~ sleep | | t*
~ yes | | t*
  date | -uRI --iso-8601? --utc | /\\+.*/?
~ uname arch nproc whoami groups tty uptime free lscpu lsb_release sw_vers locale | -abcghimnoprsv --all --human |
  id | -ugnrG | /[\\w-]+/?
  ps | -aAeflLFjTwx -o=/(?!.*environ)[a-z,%]+/ -p=/[\\d,]+/ -u=/\\w+/ -C=/[\\w.-]+/ --sort=/[\\w%-]+/ --no-headers
        --forest | /auxw*|ax|axu/?
  pgrep | -alfx -u=/\\w+/ | /[\\w.-]+/
~ which whereis type | -a | t*
  printenv | | /(?!.*(?i:key|token|secret|passw|auth|cred))[A-Z_]+/
        /(?!.*(?i:key|token|secret|passw|auth|cred))[A-Z_]+/*
~ true false clear | |
~ grep egrep fgrep | -acEFGhHiIlLnoqrRsvwxzP -# -A= -B= -C= -m= -e=e --include= --exclude= --exclude-dir= --color?
        --count --only-matching --recursive --ignore-case --invert-match --line-number --files-with-matches
        --with-filename --no-filename --word-regexp --extended-regexp --fixed-strings --quiet --max-count=
        --context= --after-context= --before-context= --regexp=e --line-buffered | p r* | !grep
  rg | -acFHiIlnNoPqSsUuvwx0. -A= -B= -C= -m= -e=e -g= -t= -T= -j= -M= -r= --glob= --iglob= --type= --type-not=
        --type-list --hidden --no-ignore --files-with-matches --count --ignore-case --smart-case --fixed-strings
        --word-regexp --line-number --no-heading --heading --no-filename --color= --context= --max-count=
        --max-depth= --multiline --only-matching --invert-match --json --stats --sort= --regexp=e --no-messages
        --version | p r* | !grep
  fd fdfind | -HIuasgFl1 -e= -t= -E= -d= --hidden --no-ignore --extension= --type= --exclude= --max-depth= | t? l*
  find | | q | !find
  jq | -acCejMnrRsS --arg=2 --argjson=2 --compact-output --raw-output --raw-input --null-input --slurp --sort-keys
        --tab --indent= --exit-status | p r* | !jq
  sed | -nErsuz -e=e -i? --in-place? --expression=e --quiet --regexp-extended | p r* | !sed
  awk | -F= -v=/[a-z]\\w*=[\\w.,:-]*/ | p r* | !awk
  sort | -bdfghiMnRrVcCmsuz -k= -t= --key= --field-separator= --unique --reverse --numeric-sort
        --human-numeric-sort --version-sort | r*
  uniq | -cdDiuz -f= -s= -w= --count --repeated --unique | r?
  tee | -aip --append | w*
  base64 | -di -w= --decode --wrap= | r?
  xargs | -0rt -n=/\\d+/ -I= -L=/\\d+/ -P=/\\d+/ --null --no-run-if-empty | a | !xargs
  env | | a | !env
  nice | -n=/-?\\d+/ | $
  nohup | | $ | !nohup
  time | -p | $
  timeout | -k=/[\\d.]+[smhd]?/ -s=/\\w+/ --preserve-status --foreground | /[\\d.]+[smhd]?/ $
  stdbuf | -i=/\\w+/ -o=/\\w+/ -e=/\\w+/ | $
  sudo | -EHn -u=/[\\w-]+/ | $ | rights.root
"""


PROGRAMS = {name: row for text in (TEXTS_TABLE, TABLE, GIT_TABLE, PACKAGES_TABLE) for name, row in rows(text)}
"""Every program by its name."""
SUBCOMMANDS = {
    name: dict(rows(text)) for name, text in {**FILES_SUBCOMMANDS, **GIT_SUBCOMMANDS, **PACKAGES_SUBCOMMANDS}.items()
}
"""The tables of subcommands by the names that operands `@name` have."""
