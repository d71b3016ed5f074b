"""Programs of the network, of containers, clusters, clouds and databases."""

from __future__ import annotations

import re
from collections.abc import Callable

from core.security.command.call import Call
from core.security.command.expansion import Value
from core.security.command.table import Given
from core.security.network import host_of, is_local
from core.security.places import Region
from core.security.rules import names

_DATA = ("-d", "-F", "-T", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json",
         "--form", "--form-string", "--upload-file", "--url-query")  # fmt: skip
_REDIS = names(
    "get mget keys scan ping info dbsize ttl type exists llen lrange smembers hget hgetall zrange strlen set"
)
_CHANGES = names("add del delete set flush replace change exec -b netns up down")
_LOOKS_AT_CLUSTERS = frozenset(["", *names(
    "get describe logs top version explain api-resources cluster-info diff list status show template lint search"
    " history events wait build"
)])  # fmt: skip
_CONTEXTS = names("view get-contexts current-context get-clusters")
_HEADERS = ("-H", "--header", "-u", "--user", "-b", "--cookie", "--oauth2-bearer", "-A", "-e")
_SECRETS = frozenset(["secret.read", "secret.process", "secret.keyring", "secret.environment"])
_DROPS = re.compile(
    r"(?i)\b(?:drop\s+(?:table|database|schema|user|index|view)|truncate\s+|delete\s+from\s+\w+\s*(?:;|$)"
    r"|flushall|flushdb|dropDatabase)"
)
_QUERY = re.compile(
    r"(?is)\s*(?:(?:select|with|explain|show|describe|pragma)\b|\.tables|\.schema|\\d\w*|\\l)"
    r"(?!.*(?:\binto\b|writefile|readfile|edit\s*\(|load_extension|\battach\b|\bvacuum\b|;\s*\S|\bprogram\b"
    r"|pg_read|load_file|\bsys_|lo_(?:im|ex)port|fts3_tokenizer|\b(?:insert|update|delete|drop|alter|create|copy)\b|\n|\\!|pg_ls|dblink))"
)
_SECRET_CALL = re.compile(
    r"secretsmanager|ssm get-parameter|sts get-session|iam create-access|print-access-token|get-credentials"
    r"|keyvault secret|configure (?:get|export)|secrets? |get-access-token|ecr get-login"
    r"|auth (?:token|print|login|application)|config:get|state pull"
)
_LOOKS = re.compile(
    r"^(?:describe|list|get|ls|show|head|wait|help|version|validate|plan|fmt|output|graph|providers|status"
    r"|info|logs?|whoami|search|lookup|explain|diff|current|init)(?:-|$)"
)
_DESTROYS = re.compile(
    r"\b(?:destroy|delete|terminate|remove|rm|rb|purge|detach|drain|uninstall|rollback)\b"
    r"|\bdelete-|terminate-|--delete"
)


def _sent(call: Call, value: Value, *, local: bool, is_file: bool = False) -> None:
    """Data that goes out."""
    found = re.match(r"(?:[^=@]*=)?[@<](.*)|[^=@]+@(.*)", value.start, re.DOTALL)
    name = value.start if is_file else (found[1] or found[2] or "") if found else ""
    carries = is_file or found is not None or (value.text is None and value.is_foreign)
    if (is_file or found) and name not in {"-", "."}:
        call.reads(Value(name.split(";")[0], value.shown) if value.text is not None else Value(None, value.shown))
    if local:
        return
    if _SECRETS & call.findings.rules.keys():
        call.rule("secret.sent")
    piped_text = name == "-" and call.stdin.is_literal
    call.rule("net.upload" if carries and not piped_text else "net.post")


def _curl(call: Call, given: Given) -> None:
    urls = [*given.of("u"), *given.values("--url")]
    local = (
        bool(urls)
        and all(is_local(host_of(value.start)) for value in urls if value.start)
        and all(v.start for v in urls)
    )
    for url in urls:
        if url.text and re.search(r"[{\[]", url.text) and not given.has("-g", "--globoff"):
            raise call.fail(url, "an address with braces")
    for name, value in given.options:
        if name in ("-k", "--insecure") and not local:
            call.rule("net.unchecked")
        if value is None:
            continue
        if name in _DATA:
            _sent(call, value, local=local, is_file=name in ("-T", "--upload-file"))
        elif name in _HEADERS:
            if value.start.startswith("@") or (name in ("-b", "--cookie") and "=" not in value.start):
                _sent(call, Value(value.start.lstrip("@"), value.shown), local=local, is_file=True)
            elif value.text is None and value.is_foreign and not local:
                call.rule("secret.sent" if _SECRETS & call.findings.rules.keys() else "net.upload")
        elif name in ("-w", "--write-out") and (value.text is None or "@" in value.text or "%output" in value.text):
            raise call.fail(value, "an option of curl")
        elif (
            name in ("-X", "--request") and (value.text or "?").upper() not in ("GET", "HEAD", "OPTIONS") and not local
        ):
            call.rule("net.post")
    if (
        _SECRETS & call.findings.rules.keys()
        and any(value.text is None and value.is_foreign for value in urls)
        and not local
    ):
        call.rule("secret.sent")
    if given.has("-O", "--remote-name", "--remote-name-all"):
        _downloaded(call, urls)


def _downloaded(call: Call, urls: list[Value]) -> None:
    for value in urls:
        name = value.start.split("?")[0].rstrip("/").rpartition("/")[2]
        call.writes(Value(name or "index.html", value.shown))


def _wget(call: Call, given: Given) -> None:
    urls = given.of("u")
    local = bool(urls) and all(is_local(host_of(value.start)) and value.start for value in urls)
    for name, value in given.options:
        if name == "--no-check-certificate" and not local:
            call.rule("net.unchecked")
        if value is None:
            continue
        if name in ("--post-data", "--body-data", "--post-file", "--body-file"):
            _sent(call, value, local=local, is_file=name.endswith("file"))
        elif name == "--header" and value.text is None and value.is_foreign:
            call.rule("net.upload")
    if _SECRETS & call.findings.rules.keys() and any(value.is_foreign for value in urls):
        call.rule("secret.sent")
    if not given.has("-O", "--output-document", "--spider"):
        _downloaded(call, urls)


def _httpie(call: Call, given: Given) -> None:
    words = [value for value in given.of("t") if (value.text or "").upper() not in ("GET", "HEAD", "OPTIONS")]
    verbs = [value for value in words if (value.text or "") in ("POST", "PUT", "DELETE", "PATCH")]
    words = [value for value in words if value not in verbs]
    local = bool(words) and call.fetches(words[0])
    for value in words[1:]:
        _sent(call, value, local=local)
    if verbs and not local:
        call.rule("net.post")


def _ssh(call: Call, given: Given) -> None:
    for value in given.values("-i"):
        call.rule("secret.read", value.shown)
    if given.of("$"):
        call.rule("run.remotely")
        raise call.fail(None, "what another machine runs")
    for value in given.of("t")[:1]:
        if value.text is None or not re.fullmatch(r"[\w.@:-]+", value.text):
            raise call.fail(value, "a host")
        call.findings.calling(value.text.rpartition("@")[2], "net.login")
    call.rule("shell.interactive")


def _netcat(call: Call, given: Given) -> None:
    if given.has("-l", "--listen"):
        call.rule("net.listen")
        call.rule("net.open")
        return
    words = [value.text or "?" for value in given.of("t")]
    host = words[0] if words else ""
    call.findings.calling(host, "net.probe" if given.has("-z") and is_local(host) else "net.raw")
    if _SECRETS & call.findings.rules.keys() and not is_local(host):
        call.rule("secret.sent")


def _lookup(call: Call, given: Given) -> None:
    for value in given.of("t"):
        if (value.text is None and value.is_foreign) or not re.fullmatch(r"[@+\w.:/-]*", value.start):
            call.rule("net.dns-data", value.shown)
            if _SECRETS & call.findings.rules.keys():
                call.rule("secret.sent")
        elif "." in value.start or value.start == "localhost":
            call.findings.calling(value.start.lstrip("@"), "net.probe")


def _look_only(call: Call, given: Given) -> None:
    for value in given.of("t"):
        if value.text is None or value.text in _CHANGES or value.text.startswith("set-"):
            call.rule("machine.firewall")


# -- containers, clusters and clouds -----------------------------------------------------------------------------------


def _docker_run(call: Call, given: Given) -> None:
    for name, value in given.options:
        text = value.start if value is not None else ""
        if name == "--privileged" or (
            name in ("--pid", "--net", "--network", "--ipc", "--userns", "--uts")
            and text.startswith(("host", "container:"))
        ):
            call.rule("rights.container")
        if name in ("--cap-add", "--device", "--volumes-from", "--cgroup-parent") or (
            name == "--security-opt" and "no-new" not in text
        ):
            call.rule("rights.container")
        if name in ("-v", "--volume", "--mount") and value is not None:
            _mounted(call, name, value)
    entry = given.values("--entrypoint")
    is_shared = any(name in ("-v", "--volume", "--mount") for name, _ in given.options)
    if (is_shared or call.spelled[-1:] == ["exec"]) and (command := [*entry, *given.of("a")[1:]]):
        call.command(command)


def _mounted(call: Call, name: str, value: Value) -> None:
    source, colon, rest = value.start.partition(":")
    if name == "--mount":
        source = next(
            (part.partition("=")[2] for part in value.start.split(",") if part.startswith(("source=", "src="))), ""
        )
        colon, rest = ":", "ro" if "readonly" in value.start else ""
    if not colon or not source:
        if value.text is None:
            raise call.fail(value, "what is mounted")
        return
    if not source.startswith(("/", ".", "~")):
        return
    path = Value(source, value.shown)
    places = call.findings.places
    for one in call.paths(path):
        inside = places.place(one) in (Region.INSIDE, Region.TEMPORARY)
        if not inside and (not re.search(r"(?:^|:|,)ro(?:,|$)", rest) or places.place(one) is not Region.OUTSIDE):
            call.rule("rights.container", value.shown)
    (call.reads if re.search(r"(?:^|:|,)ro(?:,|$)", rest) else call.writes)(path)


def _docker_cp(call: Call, given: Given) -> None:
    source, target = given.of("t")
    if source.text is None or target.text is None:
        raise call.fail()
    if ":" not in source.text:
        call.reads(source)
    if ":" not in target.text:
        call.writes(target)


def _compose_down(call: Call, given: Given) -> None:
    if given.has("-v", "--volumes", "--rmi") or "rm" in call.spelled:
        call.rule("destroy.containers")


def _cluster(call: Call, given: Given) -> None:
    words = [value.text or "?" for value in given.of("t")]
    verb = words[0] if words else ""
    if verb == "get" and any(re.match(r"secrets?\b", word) for word in words[1:]):
        call.rule("secret.keyring")
    elif verb in _LOOKS_AT_CLUSTERS or (verb == "config" and set(words[1:2]) & _CONTEXTS):
        call.rule("cloud.read")
    elif verb in ("delete", "drain", "uninstall", "rollback"):
        call.rule("destroy.data")
    elif verb in ("exec", "run", "debug", "cp", "attach", "plugin"):
        call.rule("run.remotely")
        raise call.fail(None, "what a cluster runs")
    else:
        call.rule("cloud.change")


def _cloud(call: Call, given: Given) -> None:
    words = [value.text or "?" for value in given.of("t")]
    line = " ".join(words) + " "
    if _SECRET_CALL.search(line):
        call.rule("secret.keyring")
    elif re.search(r"\bs3 (?:cp|sync|mv)\b|^(?:cp|rsync|mv|copy|sync|put|copyto)\b|storage cp", line):
        for value in given.of("t"):
            if value.text and "/" in value.text and "://" not in value.text:
                call.reads(value)
        call.rule("net.upload")
    elif _DESTROYS.search(line + call.source):
        call.rule("destroy.data")
    elif any(map(_LOOKS.match, words[:4])) or given.has("--version", "--help"):
        call.rule("cloud.read")
        for value in given.of("t"):
            if value.start.startswith("file:"):
                raise call.fail(value, "a file")
    else:
        call.rule("cloud.change")


def _hub(call: Call, given: Given) -> None:
    words = [value.text or "?" for value in given.of("t")]
    if words[:1] == ["auth"]:
        call.rule("net.fetch" if words[1:2] == ["status"] else "secret.keyring")
    elif words[:1] == ["api"]:
        sends = given.has("-f", "-F", "--field", "--raw-field", "-X", "--method", "--input")
        call.rule("message.sent" if sends else "net.fetch")
    elif words[:1] in (["version"], ["search"], ["status"], []) or (words[1:2] and words[1] in (
        "view", "list", "status", "diff", "checks", "browse", "ls", "watch")):  # fmt: skip
        call.rule("net.fetch")
    elif tuple(words[:2]) in (
        ("repo", "clone"),
        ("pr", "checkout"),
        ("repo", "sync"),
        ("release", "download"),
        ("run", "download"),
    ):
        call.rule("git.fetch")
    elif words[:2] == ["repo", "delete"]:
        call.rule("destroy.history")
    elif words[:1] in (["alias"], ["extension"], ["config"], ["codespace"]):
        raise call.fail()
    else:
        call.rule("message.sent")


def _database(call: Call, given: Given) -> None:
    statements = given.values("-c", "-e", "--command", "--eval", "--execute")
    for value in given.values("-h", "--host"):
        call.findings.calling(value.start, "net.login")
    if any(_DROPS.search(value.shown) for value in (*statements, *given.of("t"))) or _DROPS.search(
        call.stdin.text or ""
    ):
        call.rule("destroy.data")
    if given.has("--version"):
        return
    if call.name == "redis-cli":
        words = [(value.text or "?").lower() for value in given.of("t")]
        if words[:1] and words[0] not in _REDIS:
            raise call.fail(None, "what a database is told")
    elif not statements:
        raise call.fail(None, "what a database is told")
    for value in statements:
        if value.text is None or not _QUERY.match(value.text):
            raise call.fail(value, "a statement")
    call.rule("database.query")


def _sqlite(call: Call, given: Given) -> None:
    for value in given.of("t"):
        if _DROPS.search(value.shown):
            call.rule("destroy.data")
        if value.text is None or not _QUERY.match(value.text):
            raise call.fail(value, "a statement")
    if not given.of("t") and not given.has("-version"):
        raise call.fail(None, "what a database is told")
    call.rule("database.query")


HANDLERS: dict[str, Callable[[Call, Given], None]] = {
    "curl": _curl,
    "wget": _wget,
    "httpie": _httpie,
    "ssh": _ssh,
    "netcat": _netcat,
    "lookup": _lookup,
    "look_only": _look_only,
    "docker_run": _docker_run,
    "docker_cp": _docker_cp,
    "compose_down": _compose_down,
    "cluster": _cluster,
    "cloud": _cloud,
    "hub": _hub,
    "database": _database,
    "sqlite": _sqlite,
}
"""By their names in the table."""
