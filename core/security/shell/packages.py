"""Package managers: what looks, installs, publishes and runs scripts."""

from __future__ import annotations

import re

from core.security.network import host_of, is_local
from core.security.rules import names
from core.security.shell.programs import Call, Handler
from core.security.shell.words import Out, Word, options

_INSTALLS = frozenset(
    [
        "install",
        "add",
        "i",
        "ci",
        "in",
        "update",
        "upgrade",
        "up",
        "get",
        "fetch",
        "download",
        "remove",
        "uninstall",
        "un",
        "rm",
        "rebuild",
        "link",
        "dedupe",
        "require",
        "restore",
        "bootstrap",
        "tap",
        "reinstall",
        "autoremove",
        "dist-upgrade",
        "full-upgrade",
        "sync",
        "import",
        "create",
        "new",
        "source",
        "build-dep",
        "group",
        "default",
        "toolchain",
        "component",
        "-S",
        "-Sy",
        "-Syu",
        "-Syyu",
        "-R",
        "-U",
        "-i",
        "localinstall",
        "purge",
        "erase",
        "del",
        "exec-install",
    ]
)
_LOOKS = frozenset(
    [
        "list",
        "ls",
        "show",
        "search",
        "info",
        "view",
        "freeze",
        "check",
        "outdated",
        "why",
        "audit",
        "help",
        "version",
        "config",
        "cache",
        "--version",
        "-V",
        "-v",
        "-h",
        "--help",
        "doc",
        "ping",
        "root",
        "prefix",
        "bin",
        "owner",
        "whoami",
        "tree",
        "metadata",
        "verify-project",
        "pkgid",
        "explain",
        "fund",
        "env",
        "which",
        "query",
        "policy",
        "madison",
        "-l",
        "-L",
        "-Q",
        "-Qi",
        "-Ql",
        "-s",
        "-q",
        "-qa",
        "depends",
        "rdepends",
        "deps",
        "licenses",
        "completion",
        "home",
        "repo",
        "bugs",
        "inspect",
        "log",
        "diff",
        "--list",
        "index",
        "locate",
        "stats",
    ]
)
_RUNS = frozenset(
    [
        "run",
        "run-script",
        "test",
        "t",
        "tst",
        "start",
        "stop",
        "restart",
        "build",
        "vet",
        "bench",
        "check",
        "clippy",
        "fmt",
        "fix",
        "doc",
        "clean",
        "generate",
        "tool",
        "exec",
        "mod",
        "work",
        "compile",
        "package",
        "pack",
        "verify",
        "dev",
        "lint",
        "serve",
        "preview",
        "script",
        "tasks",
        "rustc",
        "nextest",
        "miri",
        "expand",
        "shell",
        "bundle",
        "init",
    ]
)
_PUBLISHES = frozenset(
    [
        "publish",
        "upload",
        "push",
        "unpublish",
        "deprecate",
        "release",
        "yank",
        "access",
        "dist-tag",
        "owner-add",
        "deploy",
        "trust",
    ]
)
_LOGINS = frozenset(["login", "logout", "adduser", "token", "signin"])
_ROOT = frozenset(
    ["apt", "apt-get", "aptitude", "dpkg", "yum", "dnf", "rpm", "apk", "pacman", "zypper", "snap", "port", "flatpak"]
)


def _manager(call: Call) -> Out:
    found, rest = options(
        call.args, "-r -c -i -e -w -C -f --prefix --index-url --extra-index-url --find-links --requirement"
                   " --constraint --target"
        " --registry --filter --workspace --manifest-path --features -p --package --root --proxy --cwd",
    )  # fmt: skip
    call.writes(*[value for name, value in found if name in ("--target", "--root", "--prefix") and value is not None])
    verb = rest[0].text if rest else next((name for name, _ in found if name in _INSTALLS | _LOOKS), "")
    args = rest[1:]
    _addresses(call, [*args, *[value for _, value in found if value is not None]])
    if verb == "set" or (verb == "config" and any(word.text in ("set", "edit", "--global") for word in args[:2])):
        call.rule("persist.config")
    elif verb in _PUBLISHES:
        call.rule("package.publish")
    elif verb in _LOGINS:
        call.rule("secret.keyring")
    elif call.name in ("npm", "pnpm", "yarn", "bun") and verb in ("exec", "x", "dlx", "create", "init") and args:
        call.rule("package.run")
        call.again(args) if verb == "exec" else None
    elif call.name == "go" and verb in ("run", "install", "get") and any("@" in word.text for word in args):
        call.rule("package.install" if verb != "run" else "package.run")
    elif call.name == "go" and verb == "mod" and args and args[0].text in ("download", "tidy", "vendor"):
        call.rule("package.install")
    elif verb in _INSTALLS and not (call.name in ("nix", "go") and verb == "build"):
        _install(call, verb, args)
    elif verb in _RUNS or (call.name == "yarn" and verb and verb not in _LOOKS):
        _project(call, verb, args)
    elif verb == "" and call.name in ("yarn",):
        _install(call, verb, args)
    elif verb and verb not in _LOOKS:
        call.rule("program.unknown", f"{call.name} {verb}")
    return Out(None)


def _install(call: Call, verb: str, args: list[Word]) -> None:
    if call.name.startswith("pip") and verb in ("uninstall",):
        call.rule("package.install")
        return
    call.rule("package.install")
    call.reader.findings.sends = True
    if call.name in _ROOT and verb in ("remove", "purge", "autoremove", "erase", "del", "-R"):
        call.rule("persist.system")
    if any(word.text.startswith((".", "/")) or word.text == "-e" for word in args):
        call.rule("run.project")


def _addresses(call: Call, words: list[Word]) -> None:
    """Packages and indexes that are named by an address."""
    for word in words:
        text = re.sub(r"^(?:git|hg|svn)\+", "", word.text.partition(" @ ")[2] or word.text)
        host = host_of(text) if "://" in text else (m[1] if (m := re.match(r"^git@([^:/]+):", text)) else "")
        if host and not is_local(host):
            call.reader.findings.calling(host, "package.install-url", word.text)
        elif re.match(r"^(?:github|gitlab|bitbucket|gist):", text):
            call.rule("package.install-url", text)


def _project(call: Call, verb: str, args: list[Word]) -> None:
    call.rule("run.project")
    findings = call.reader.findings
    findings.add(findings.runs, call.state.cwd or findings.places.workspace)
    if verb == "clean" and any(word.text == "-modcache" for word in args):
        call.rule("destroy.outside")


def _apt(call: Call) -> Out:
    if call.name == "dpkg" and any(
        word.text in ("-l", "-L", "-s", "-S", "--list", "--print-architecture", "-c") for word in call.args
    ):
        return Out(
            None, frozenset({"plain"}) if "--print-architecture" in [word.text for word in call.args] else frozenset()
        )
    if call.name == "rpm" and any(re.match(r"^-q|--version", word.text) for word in call.args):
        return Out(None)
    return _manager(call)


def _twine(call: Call) -> Out:
    call.rule(
        "package.publish"
        if any(word.text in ("upload", "register", "publish") for word in call.args)
        else "run.project"
    )
    return Out(None)


def _versions(call: Call) -> Out:
    """`nvm`, `pyenv`, `rustup` and the like."""
    verb = call.args[0].text if call.args else ""
    if verb in ("exec", "run"):
        return call.again(call.args[1:]) if len(call.args) > 1 else Out(None)
    if verb == "init":
        return Out("", frozenset({"plain"}))
    if verb in names("install update toolchain component target plugin add self default"):
        call.rule("package.install")
        call.reader.findings.sends = True
    return Out(None)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(
        names(
"pip easy_install npm yarn pnpm cargo go gem bundle bundler composer brew port snap"
" flatpak nix nix-env choco winget cpan cpanm luarocks opam cabal pipx corepack dotnet"
" helm-plugin mix-hex"), _manager,
    ),
    **dict.fromkeys(names(
"apt apt-get aptitude dpkg yum dnf rpm apk pacman zypper"), _apt),
    "twine": _twine,
    **dict.fromkeys(("nvm", "pyenv", "rbenv", "asdf", "rustup", "sdk", "volta", "fnm"), _versions),
}  # fmt: skip
