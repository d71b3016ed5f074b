"""Programs that list, search, print and filter, and those that start other programs."""

from __future__ import annotations

import re

from core.security.paths import Region
from core.security.risk_rules import names
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call, Input
from core.security.shell.program_table import Arguments, Handler
from core.security.shell.shell_state import is_harmless

TABLE = """
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
        --with-filename --no-filename --word-regexp --extended-regexp --fixed-strings --quiet --max-count= --context=
        --after-context= --before-context= --regexp=e --line-buffered | p r* | !grep
  rg | -acFHiIlnNoPqSsUuvwx0. -A= -B= -C= -m= -e=e -g= -t= -T= -j= -M= -r= --glob= --iglob= --type= --type-not=
        --type-list --hidden --no-ignore --files-with-matches --count --ignore-case --smart-case --fixed-strings
        --word-regexp --line-number --no-heading --heading --no-filename --color= --context= --max-count= --max-depth=
        --multiline --only-matching --invert-match --json --stats --sort= --regexp=e --no-messages --version | p r* |
        !grep
  fd fdfind | -HIuasgFl1 -e= -t= -E= -d= --hidden --no-ignore --extension= --type= --exclude= --max-depth= | t? l*
  find | | q | !find
  jq | -acCejMnrRsS --arg=2 --argjson=2 --compact-output --raw-output --raw-input --null-input --slurp --sort-keys
        --tab --indent= --exit-status | p r* | !jq
  sed | -nErsuz -e=e -i? --in-place? --expression=e --quiet --regexp-extended | p r* | !sed
  awk | -F= -v=/[a-z]\\w*=[\\w.,:-]*/ | p r* | !awk
  sort | -bdfghiMnRrVcCmsuz -k= -t= --key= --field-separator= --unique --reverse --numeric-sort --human-numeric-sort
        --version-sort | r*
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
"""See `core.security.shell.program_table` for the language."""

_SECRETS = re.compile(r"id_rsa|id_ed25519|\.pem|credential|\.env$|secret|passw|\.aws|\.ssh|\.kube")
_SECRET_TEXT = re.compile(r"BEGIN.*PRIVATE|AKIA|(?i:aws_secret)")
_FLAGS = names("-o -a -or -and -not ! ( ) -print -prune -empty -true")
_VALUES = names("-name -iname -path -ipath -type -size -mtime -mmin -maxdepth -mindepth -newer -regex")
_REGENERATED = names(
    "*.pyc *.pyo __pycache__ .pytest_cache .mypy_cache .ruff_cache *.egg-info .DS_Store node_modules *.orig *.rej"
    " *.tmp "
    "*.bak *.o *.class *.swp"
)
"""Names of files that a search may remove, because programs create them again."""


def _grep(call: Call, arguments: Arguments) -> None:
    if not arguments.operands_of("r") and (call.name == "rg" or arguments.has("-r", "-R", "--recursive")):
        call.reads(Value(".", "."))
    for value in arguments.values("--include", "-g", "--glob", "--iglob"):
        if not value.start.startswith("!") and call.aims_at_secret(value.start):
            call.report("secret.read", value.shown)
    searched = " ".join(value.shown for value in (*arguments.operands_of("p"), *arguments.values("-e", "--regexp")))
    if _SECRET_TEXT.search(searched) and not call.stdin.is_given:
        call.report("secret.search")


def _find(call: Call, arguments: Arguments) -> None:
    args, roots = list(arguments.operands_of("q")), list[Value]()
    while args and not args[0].start.startswith(("-", "!", "(")):
        roots.append(args.pop(0))
    roots = roots or [Value(".", ".")]
    for word in (*roots, *args):
        if word.is_glob and (word in args or word.start[:1] in "*?["):
            raise call.fail(word, "the pattern may expand to an expression of find")
    for root in roots:
        call.lists(root)
    narrowed, is_plain = "", True
    while args:
        part = args.pop(0).text
        if part in _VALUES and args and args[0].text is not None:
            value = args.pop(0).text or ""
            if part in ("-name", "-iname"):
                narrowed = value
                if _SECRETS.search(value):
                    call.report("secret.search")
            elif part not in ("-type", "-maxdepth", "-mindepth"):
                narrowed = ""
        elif part == "-delete":
            _found_removed(call, roots, narrowed if is_plain else "")
        elif part == "-exec":
            words = [value.text for value in args]
            end = next((n for n, text in enumerate(words) if text in (";", "+")), 0)
            if end < 2 or words[0] != "rm" or words[end - 1] != "{}" or any(
                not re.fullmatch(r"-[rfv]+", text or "") for text in words[1 : end - 1]
            ):  # fmt: skip
                raise call.fail(None, "what find runs is unknown")
            call.findings.add(call.findings.spellings, " ".join(text or "" for text in words[:end]))
            _found_removed(call, roots, narrowed if is_plain else "")
            del args[: end + 1]
        elif part in _FLAGS:
            is_plain = is_plain and part == "-print"
        else:
            raise call.fail(None, "an expression of find")


def _found_removed(call: Call, roots: list[Value], narrowed: str) -> None:
    places = call.findings.places
    for root in roots:
        for path in call.paths(root):
            if places.place(path) not in (Region.INSIDE, Region.TEMPORARY):
                call.report("destroy.root" if path == "/" else "destroy.outside", path)
            else:
                call.findings.add(call.findings.whole, path)
                call.report("destroy.found" if narrowed in _REGENERATED else "destroy.root", path)
            call.findings.write_path(path)


def _jq(call: Call, arguments: Arguments) -> None:
    for value in arguments.operands_of("p"):
        if value.text is None or re.search(r"\b(?:import|include|input_filename|env|load|strenv)\b|\$ENV", value.text):
            raise call.fail(value, "a filter")


# -- sed and awk -------------------------------------------------------------------------------------------------------

_BRACKET = r"\[\^?+\]?+(?:(?!{mark})[^][\\\n]|\[:[a-z]+:\]|\\(?!{mark})[^][\n])*\]"
"""A set of characters. One with the mark in it is refused: where it is closed, sed goes on to the next mark.

`?+` gives nothing back: a text with two readings at many places would take forever.
"""
_IN_SLASHES = _BRACKET.replace("{mark}", "/")
_ADDRESS = rf"(?:\d+|\$|/(?:[^[/\\\n]|\\.|{_IN_SLASHES})*/)"
_IN_MARKS = _BRACKET.replace("{mark}", "(?P=mark)")
_SED = re.compile(
    rf"(?:[\s;]|(?:{_ADDRESS}(?:,{_ADDRESS})?!?)?(?:[pdq=](?=[\s;]|$)"
    rf"|s(?P<mark>[/|,#@:!])(?:(?!(?P=mark))[^[\\\n]|\\.|{_IN_MARKS})*(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gpI\d]*(?=[\s;]|$)))+"
)
_AWK_REFUSED = re.compile(
    r"[|>@`]|\\\n|\b(?:system|getline|close|fflush|ENVIRON|ARGV|ARGC|ARGIND|PROCINFO|SYMTAB|FUNCTAB)\b"
)


def is_plain_sed(script: str) -> bool:
    """Whether a script of sed reads no other file, writes none, and runs nothing."""
    return len(script) <= 2_000 and _SED.fullmatch(script) is not None


def _sed(call: Call, arguments: Arguments) -> None:
    for value in [*arguments.operands_of("p"), *arguments.values("-e", "--expression")]:
        if value.text is None or not is_plain_sed(value.text):
            raise call.fail(value, "a script of sed")
    if arguments.has("-i", "--in-place"):
        if arguments.values("-i", "--in-place"):
            raise call.fail(None, "the backup that sed writes")
        for value in arguments.operands_of("r"):
            call.writes(value)
            call.truncates(value)


def _awk(call: Call, arguments: Arguments) -> None:
    for value in arguments.operands_of("p"):
        if value.text is None or len(value.text) > 2_000 or _AWK_REFUSED.search(value.text):
            raise call.fail(value, "a script of awk")
    if any("=" in value.start for value in arguments.operands_of("r")):
        raise call.fail(None, "a variable of awk")


# -- programs that start others ----------------------------------------------------------------------------------------


def _xargs(call: Call, arguments: Arguments) -> None:
    marks = arguments.values("-I")
    if marks and (len(marks) > 1 or not marks[0].text or arguments.has("-n", "-L")):  # the last of them counts
        raise call.fail(None, "conflicting options of xargs")
    mark = marks[0].text if marks else None
    found = Value(None, "...", is_foreign=True, is_many=True)
    words = [found if mark and mark in one.start else one for one in arguments.operands_of("a")]
    call.command([*(words or [Value("echo", "echo")]), *([found] if mark is None else [])], Input(is_given=False))


def _env(call: Call, arguments: Arguments) -> None:
    words = list(arguments.operands_of("a"))
    while words and "=" in words[0].start:
        given_value = words.pop(0)
        name = given_value.start.partition("=")[0]
        if not is_harmless(name, given_value.without_prefix(len(name) + 1).text):
            raise call.fail(None, "the variable may change what programs do")
        call.shell = call.shell.with_variable(name, None)  # scripts that the command runs see it
    if not words:
        call.report("secret.environment")
        return
    call.command(words)


def _nohup(call: Call, arguments: Arguments) -> None:
    """What the command prints goes to a file if it is a terminal that would get it."""
    call.shell = call.shell.with_written(*(f"{folder}/nohup.out" for folder in call.folders))


HANDLERS: dict[str, Handler] = {
    "grep": _grep,
    "find": _find,
    "jq": _jq,
    "sed": _sed,
    "awk": _awk,
    "xargs": _xargs,
    "env": _env,
    "nohup": _nohup,
}
