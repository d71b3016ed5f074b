"""Which program does what: the tables, and the way from a simple command to the reader of its program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from core.security.places import Region
from core.security.rules import names
from core.security.shell.hooked import options_that_run
from core.security.shell.reader import Reader, State
from core.security.shell.words import Out, Word


@dataclass(slots=True)
class Call:
    """A program that would be started."""

    reader: Reader
    state: State
    name: str
    args: list[Word]
    stdin: Out

    def rule(self, rule: str, about: str = "") -> None:
        """A rule is met."""
        self.reader.findings.name(rule, about or shown([Word(self.name), *self.args]))

    def path(self, word: Word) -> tuple[str, bool]:
        """The path of an argument, and whether it can be told."""
        return self.reader.path(word, self.state)

    def reads(self, *words: Word) -> Out:
        """These arguments are read; what the program gets from them."""
        kinds: frozenset[str] = frozenset()
        texts: list[str] = []
        for word in words:
            kinds |= word.kinds
            if word.content is not None or word.text == "-" or word.text.startswith("/dev/fd/"):
                texts.append(word.content or "")
                continue
            path, is_known = self.path(word)
            kinds |= {"secret"} if self.reader.findings.reading(path, is_known=is_known) else {"file"}
            put = self.reader.files.get(path)
            if put is not None:
                kinds |= put.kinds
            texts.append(put.text if put is not None and put.text is not None else "\0")
        text = "".join(texts)
        return Out(None if "\0" in text else text, kinds)

    def writes(self, *words: Word) -> None:
        """These arguments are written."""
        for word in words:
            path, is_known = self.path(word)
            self.reader.findings.writing(path, is_known=is_known)

    def again(self, words: list[Word], stdin: Out | None = None) -> Out:
        """The command that a wrapper starts."""
        state = self.state.inner()
        state.depth += 1
        if state.depth > 40:
            self.rule("opaque.size")
            return Out()
        return self.reader.run(words, state, self.stdin if stdin is None else stdin)


Handler = Callable[[Call], Out]


def shown(words: list[Word]) -> str:
    """A command as it is shown."""
    return " ".join(word.text for word in words)


QUIET = names(
    ": true false test [ [[ echo printf date sleep pwd whoami id uname hostname arch nproc uptime tty stty"
    " clear reset seq yes"
    " basename dirname realpath readlink expr bc dc factor cal tput locale getconf groups logname users who w last jobs"
    " bg fg wait disown set shopt unset shift return exit break continue let getopts hash type which whereis"
    " command-not-found"
    " help history umask ulimit times caller lsb_release hostnamectl free vmstat lscpu lsblk lsusb lspci lsmod df"
    " ps pgrep top htop pidof uuidgen mktemp numfmt enable complete compgen bind dirs popd pushd cd sync logger"
    " lsof ss netstat ipcs tabs man info apropos whatis tldr cowsay fortune figlet nohup-out arch sw_vers local"
    " readonly declare"
    " typeset export cls ver tree-version pip-audit"
)
"""Change nothing and read no file of the user's; where one needs more, it has a reader of its own."""
_SILENT = names(
    ": true false test [ [[ sleep set shift wait return exit break continue shopt hash umask disown cd sync"
)
"""Those of them that print nothing."""
LOOKING = names(
    "cat tac nl head tail less more most bat batcat ls ll la dir vdir exa eza lsd tree stat file wc grep egrep"
    " fgrep zgrep rg ag ack"
    " diff cmp comm colordiff sdiff md5sum sha1sum sha256sum sha512sum cksum sum b2sum xxd od hexdump strings hd du"
    " cut sort uniq paste join fold fmt column expand unexpand rev tr nm objdump readelf ldd size jq yq xmllint"
    " tidy csvlook csvcut"
    " zcat bzcat xzcat zstdcat zless look pr tsort base64 base32 pygmentize identify exiftool ffprobe pdftotext pdfinfo"
    " antiword iconv hexyl delta glow shellcheck shfmt-check cloc tokei scc wdiff dos2unix-check getfacl lsattr"
    " namei fd fdfind"
    " mediainfo soxi dot sqlformat xq gron mlr ctags-list zipinfo unzip-l pandoc-list tig gitk vale codespell"
    " typos ffmpeg-info"
)
"""Read the files that they are given."""
WRITING = names("touch mkdir mkfifo mknod truncate rmdir unlink dos2unix unix2dos shfmt gofmt-w ctags split csplit")
"""Write the files that they are given."""
PROJECT = names(
    "make gmake cmake ninja meson bazel gradle gradlew mvn mvnw ant sbt pytest py.test tox nox unittest"
    " coverage mypy ruff"
    " flake8 black isort pylint pyright bandit pre-commit tsc eslint prettier jest vitest mocha karma cypress"
    " webpack vite rollup"
    " esbuild parcel gcc g++ cc c++ clang clang++ clang-format clang-tidy rustc rustfmt javac java kotlinc"
    " scala ghc stack cabal"
    " dotnet msbuild swift xcodebuild go-test golangci-lint gofmt goimports rspec rake rubocop phpunit"
    " composer-test pdflatex xelatex"
    " latexmk sphinx-build mkdocs jekyll hugo ctest just task invoke fab doit scons autoconf automake configure"
    " valgrind gdb lldb ld ar"
    " as ranlib strip hatch flit pdm django-admin flask uvicorn gunicorn celery alembic streamlit jupyter"
    " ipython nbconvert"
    " protoc buf flutter dart elixir mix iex erl rebar3 lein clj sass lessc postcss stylelint tailwindcss ng nx"
    " turbo lerna rush"
    " storybook next nuxt astro svelte-kit gatsby expo behave robot locust hypothesis doxygen bundle-audit"
    " lint-imports ansible-lint"
    " yamllint markdownlint hadolint helm-lint actionlint vulture pyupgrade autopep8 yapf import-linter"
    " deno-lint tsx ts-node nodemon"
)
"""Build, check or run what the project is."""
RULED: Mapping[str, str] = {
    **dict.fromkeys(names("shutdown reboot halt poweroff init telinit"), "machine.power"),
    **dict.fromkeys(names("mkfs mke2fs mkswap wipefs fdisk sfdisk parted gdisk cryptsetup lvremove vgremove"
                         " pvremove hdparm blkdiscard"
                         " badblocks mdadm zpool zfs shred-disk"), "destroy.disk"),
    **dict.fromkeys(names("insmod rmmod modprobe mount umount swapoff swapon sysctl kexec losetup pivot_root setenforce"
                         " aa-disable dmsetup"), "machine.kernel"),
    **dict.fromkeys(names("iptables ip6tables nft ufw firewall-cmd ipset tc"), "machine.firewall"),
    **dict.fromkeys(names("useradd adduser userdel usermod groupadd groupdel passwd chpasswd visudo vipw gpasswd"
                         " chsh chfn deluser"),
                    "machine.users"),
    **dict.fromkeys(names("gcore ptrace bpftrace bpftool perf-record strings-mem"), "machine.debug"),
    **dict.fromkeys(names("nmap masscan zmap nikto sqlmap hydra gobuster arp-scan netdiscover dirb ffuf wfuzz"),
    "net.scan"),
    **dict.fromkeys(names("ngrok cloudflared localtunnel lt bore chisel frpc tailscale zerotier-cli serveo"
                         " inlets"), "net.open"),
    **dict.fromkeys(names("tcpdump wireshark tshark dsniff ettercap"), "net.scan"),
    **dict.fromkeys(names("mail mailx sendmail mutt msmtp swaks ssmtp telegram-send slack-cli wall write"),
    "message.sent"),
    **dict.fromkeys(names("secret-tool keyring security pass op bw lpass vault gopass kwallet-query ssh-add"
                         " gpg-connect-agent"),
                    "secret.keyring"),
    **dict.fromkeys(names("ssh-copy-id"), "persist.ssh"),
    **dict.fromkeys(names("setcap"), "rights.setuid"),
    **dict.fromkeys(names("at batch anacron"), "persist.cron"),
    **dict.fromkeys(names("setfacl chattr chgrp"), "rights.many"),
    **dict.fromkeys(names("psql mysql mariadb sqlite3 mongosh mongo redis-cli cqlsh sqlcmd clickhouse-client"
                         " influx"), "database.query"),
    **dict.fromkeys(names("dropdb dropuser mysqladmin"), "destroy.data"),
    **dict.fromkeys(names("vi vim nvim nano emacs ed ex pico micro helix hx joe code subl"), "shell.interactive"),
    **dict.fromkeys(names("su login sulogin newgrp"), "shell.interactive"),
    **dict.fromkeys(names("ifconfig route brctl nmcli iwconfig ethtool arp"), "machine.firewall"),
    **dict.fromkeys(names("killall pkill killall5 skill"), "machine.kill"),
    **dict.fromkeys(names("launchctl service chkconfig update-rc.d rc-service rc-update initctl"), "machine.service"),
}  # fmt: skip
"""Programs that one rule says it all about."""

_READERS = (
    "texts",
    "wrappers",
    "code",
    "files",
    "net",
    "git",
    "forges",
    "packages",
    "machine",
    "containers",
    "languages",
    "finding",
)
"""The modules with readers for programs of their own; each has them in `HANDLERS`."""
_NORMAL_FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin")


_VERSIONED = re.compile(
    r"^(python|pypy|ipython|pip|perl|ruby|lua|php|node|bash|gcc|g\+\+|clang|clang\+\+|tclsh|gdb|sqlite|cmake)[-\d][-.\d]*$"
)
"""Programs that are installed under a name with their version."""


@cache
def handlers() -> Mapping[str, Handler]:
    """The readers by program."""
    found: dict[str, Handler] = {}
    for module in _READERS:
        found |= import_module(f"core.security.shell.{module}").HANDLERS
    return found


def dispatch(reader: Reader, words: list[Word], state: State, stdin: Out) -> Out:
    """What a simple command does; what it prints."""
    findings = reader.findings
    findings.add(findings.commands, shown(words))
    first, args = words[0], words[1:]
    name = first.text if first.known else first.bare
    call = Call(reader, state, name, args, stdin)
    if "decoded" in first.kinds:
        call.rule("run.built")
    if not first.known:
        call.rule("run.built" if first.bare and first.kinds & {"remote", "secret"} else "opaque.program", first.text)
        if not first.bare or not name:
            return Out(None, stdin.kinds)
    if any(char in name for char in "*?[") and name not in ("[", "[["):
        call.rule("run.built")
        return Out(None, stdin.kinds)
    if name in state.aliases:
        text = state.aliases.pop(name)
        return reader.here(" ".join([text, *(word.text for word in args)]), state, stdin)
    if name in state.functions:
        return reader.call(name, args, state, stdin)
    if "/" in name:
        path, _ = reader.path(Word(name, name), state)
        if posixpath.dirname(path) not in _NORMAL_FOLDERS:
            return _at_path(call, path)
        call.name = posixpath.basename(path)
    return _by_name(call)


def _at_path(call: Call, path: str) -> Out:
    """A program that is named by its path: what an earlier part wrote, the project's, or another's."""
    from core.security.shell.code import run_file

    base, findings = posixpath.basename(path), call.reader.findings
    if path in call.reader.programs:
        call.name = call.reader.programs[path]
        return _by_name(call)
    if path not in call.reader.files and (
        base in ("pip", "pip3", "python", "python3", "pytest", "node", "npm") or "/node_modules/.bin/" in path
    ):
        call.name = base
        if findings.places.place(path) in (Region.INSIDE, Region.SYSTEM):
            return _by_name(call)
    return run_file(call, path)


def _by_name(call: Call) -> Out:
    if versioned := _VERSIONED.match(call.name):
        call.name = versioned[1]
    name, handler = call.name, handlers().get(call.name)
    options_that_run(call)
    if any(word.kinds & {"secret"} for word in call.args) and name in RULED:
        call.rule("secret.sent")
    if handler is not None:
        return handler(call)
    if name in RULED or name.startswith(("mkfs.", "fsck.")):
        call.rule(RULED.get(name, "destroy.disk"))
        return Out(None, call.stdin.kinds)
    if name in PROJECT:
        call.rule("run.project")
        findings = call.reader.findings
        findings.add(findings.runs, call.state.cwd or findings.places.workspace)
        for word in call.args:
            if "/" in word.text and not word.text.startswith("-"):
                call.reads(word)
        return Out(None, call.stdin.kinds)
    plain = [word for word in call.args if not word.text.startswith("-")]
    if name in LOOKING:
        return Out(None, call.reads(*[word for word in plain if _is_path(word)]).kinds | call.stdin.kinds)
    if name in WRITING:
        call.writes(*plain)
        return Out("")
    if name in QUIET:
        if name in _SILENT:
            return Out("")
        kinds = call.stdin.kinds.union(*(word.kinds for word in call.args))
        return Out(None, kinds)
    call.rule("program.unknown", name)
    return Out(None, call.stdin.kinds.union(*(word.kinds for word in call.args)))


def _is_path(word: Word) -> bool:
    """Whether an argument of a reading program may be a path, and no pattern or number."""
    return word.content is not None or not word.text.isdigit()
