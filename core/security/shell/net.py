"""Programs that talk to the network."""

from __future__ import annotations

import re

from core.security.network import host_of, is_local
from core.security.rules import names
from core.security.shell.code import run_text
from core.security.shell.programs import Call, Handler, shown
from core.security.shell.words import Out, Word, options

_CURL = (
    "-o -d -F -T -H -X -u -A -e -b -c -K -w -m -x -E -Y -y -z -r -C -P -D -U -Q -t --output --data --data-raw"
    " --data-binary --data-ascii"
    " --data-urlencode --json --form --form-string --upload-file --header --request --user --user-agent"
    " --referer --cookie --cookie-jar"
    " --config --write-out --max-time --proxy --cert --key --cacert --connect-timeout --retry --retry-delay"
    " --resolve --connect-to"
    " --dump-header --range --interface --unix-socket --limit-rate --url --output-dir --oauth2-bearer --doh-url"
    " --url-query"
)
_CURL_DATA = names(
    "-d -F -T --data --data-raw --data-binary --data-ascii --data-urlencode --json --form --form-string --upload-file"
)
_WGET = (
    "-O -o -P -U -e -T -t -w -i -a --output-document --post-data --post-file --body-data --body-file"
    " --method --header --user --password --output-file"
)
_WGET_DATA = {"--post-data", "--post-file", "--body-data", "--body-file"}


def call_url(call: Call, word: Word) -> bool:
    """An address that is fetched; whether it is on this machine."""
    findings = call.reader.findings
    text = word.text
    host = host_of(text) if not text.startswith("$") else ""
    if text.startswith("file://"):
        call.reads(Word(text[7:], text[7:], word.known))
        return True
    if not host and not word.known:
        call.rule("net.fetch")
        findings.sends = True
    local = is_local(host)
    findings.calling(host, "net.fetch", text)
    if not local:
        findings.add(findings.urls, text if "://" in text else f"http://{text}")
        carried = word.kinds & {"command", "secret", "file", "remote"}
        if "secret" in word.kinds:
            call.rule("secret.sent")
        if carried and not _is_host_only(word):
            call.rule("net.in-address")
    return local


def _is_host_only(word: Word) -> bool:
    return "plain" in word.kinds and not word.kinds & {"secret"}


def _sent(call: Call, word: Word, *, is_local: bool) -> None:
    """A word that goes out as data."""
    text, kinds = word.text, word.kinds
    named = text.partition("@")[2] if "@" in text[:1] or re.match(r"^[^=]*=[@<]|^[^=@]+@", text) else ""
    if named and named != "-":
        kinds |= call.reads(Word(named.split(";")[0], named, word.known)).kinds
    if named == "-":
        kinds |= call.stdin.kinds | {"file"}
    if is_local:
        return
    if "secret" in kinds:
        call.rule("secret.sent")
    if kinds & {"file", "command", "remote", "secret"} or not word.known:
        call.rule("net.upload")
    else:
        call.rule("net.post")


def _curl(call: Call) -> Out:
    found, rest = options(call.args, _CURL)
    urls = rest + [value for name, value in found if name == "--url" and value is not None]
    local = bool(urls) and False not in [call_url(call, word) for word in urls]
    files = "-T --upload-file"
    out: list[Word] = []
    for name, value in found:
        if name in ("-k", "--insecure") and not local:
            call.rule("net.unchecked")
        if value is None:
            continue
        if name in _CURL_DATA:
            is_file = name in files.split() and value.text not in ("-", ".")
            _sent(
                call,
                Word(f"@{value.text}", value.bare, value.known, value.kinds) if is_file or value.text == "-" else value,
                is_local=local,
            )
        elif name in ("-o", "--output"):
            out.append(value)
        elif name in names("-H --header -u --user -A -b -e --cookie --oauth2-bearer"):
            if value.text.startswith("@"):
                _sent(call, value, is_local=local)
            elif value.kinds & {"secret", "command", "file"} and not local:
                call.rule("secret.sent" if "secret" in value.kinds else "net.upload")
        elif name in ("-x", "--proxy", "--doh-url"):
            call_url(call, value)
        elif name in ("-K", "--config"):
            call.rule("opaque.code")
        elif name in ("--resolve", "--connect-to"):
            call.reader.findings.calling(value.text.rpartition(":")[2] or value.text, "net.fetch")
        elif name in ("-X", "--request") and value.text.upper() not in ("GET", "HEAD", "OPTIONS") and not local:
            call.rule("net.post")
    call.writes(*out)
    given = Out(None, frozenset({"remote"}) if not local else frozenset())
    for word in out:
        call.reader.files[call.path(word)[0]] = given
    if any(name in ("-O", "--remote-name") for name, _ in found):
        for word in urls:
            name = word.text.split("?")[0].rstrip("/").rpartition("/")[2]
            call.reader.files[call.path(Word(name or "index", name))[0]] = given
    return given if not out else Out("")


def _wget(call: Call) -> Out:
    found, rest = options(call.args, _WGET)
    local = bool(rest) and False not in [call_url(call, word) for word in rest]
    given = Out(None, frozenset({"remote"}))
    for name, value in found:
        if value is None:
            if name == "--no-check-certificate" and not local:
                call.rule("net.unchecked")
            continue
        if name in _WGET_DATA:
            _sent(
                call,
                Word(f"@{value.text}", value.bare, value.known, value.kinds) if name.endswith("file") else value,
                is_local=local,
            )
        elif name in ("-O", "--output-document"):
            if value.text == "-":
                return given
            call.writes(value)
            call.reader.files[call.path(value)[0]] = given
        elif name == "--header" and value.kinds & {"secret", "command"}:
            call.rule("net.upload")
        elif name == "-e":
            call.rule("opaque.code")
        elif name == "-P":
            call.writes(value)
        elif name == "-i":
            call.reads(value)
            call.rule("net.fetch")
    if any(name in ("-qO-", "-O-") for name, _ in found):
        return given
    for word in rest:
        name = word.text.split("?")[0].rstrip("/").rpartition("/")[2]
        call.reader.files[call.path(Word(name or "index.html", name))[0]] = given
    return given


def _raw(call: Call) -> Out:
    found, rest = options(call.args, "-p -s -w -q -X -x -e -c -i --exec --sh-exec")
    for name, value in found:
        if name in ("-e", "-c", "--exec", "--sh-exec") and value is not None:
            call.rule("net.open")
            run_text(call, value)
    if any(name in ("-l", "--listen") for name, _ in found):
        call.rule("net.listen")
        return Out(None, frozenset({"remote"}))
    texts = [word.text for word in rest]
    host = next((text for text in texts if not text.isdigit()), "")
    if call.name == "socat":
        for text in texts:
            if re.match(r"(?i)(?:exec|system):", text):
                call.rule("net.open")
                call.reader.inside(text.partition(":")[2].split(",")[0], call.state)
        host = next(
            (text.split(":")[1] for text in texts if re.match(r"(?i)(?:tcp|udp|openssl|ssl)\d?(?:-connect)?:", text)),
            "",
        )
    if any(name == "-z" for name, _ in found) and is_local(host):
        call.reader.findings.calling(host, "net.probe")
        return Out(None)
    if not is_local(host) and "secret" in call.stdin.kinds:
        call.rule("secret.sent")
    call.reader.findings.calling(host, "net.raw", shown(call.args))
    return Out(None, frozenset({"remote"}))


def _ssh(call: Call) -> Out:
    found, rest = options(call.args, "-p -i -l -o -L -R -D -F -J -b -c -E -e -I -m -O -Q -S -W -w -B", first_ends=True)
    for name, value in found:
        if name in ("-R", "-D", "-w"):
            call.rule("net.open")
        if name == "-o" and value is not None and re.match(r"(?i)(?:proxy|local|knownhosts)command", value.text):
            call.rule("run.hooked")
            call.reader.inside(re.split(r"[= ]", value.text, maxsplit=1)[-1], call.state)
        if name == "-o" and value is not None and re.search(r"(?i)stricthostkeychecking[= ]no", value.text):
            call.rule("net.unchecked")
        if name == "-i" and value is not None:
            call.rule("secret.read", value.text)
    if not rest:
        return Out("")
    host = rest[0].text.rpartition("@")[2]
    call.reader.findings.calling(host_of(host) or host, "net.login")
    if call.stdin.kinds & {"secret"}:
        call.rule("secret.sent")
    elif call.stdin.kinds:
        call.rule("net.upload")
    if len(rest) > 1:
        call.rule("run.remotely")
        run_text(call, Word(shown(rest[1:]), "", all(word.known for word in rest[1:])))
    return Out(None, frozenset({"remote"}))


def _copy_over(call: Call) -> Out:
    found, rest = options(
        call.args,
        "-P -i -o -F -J -l -S -c -e -f --rsh --exclude --include --files-from --bwlimit --port --password-file",
    )
    for name, value in found:
        if name in ("-e", "--rsh") and value is not None:
            call.reader.inside(value.text, call.state)
    remote = [word for word in rest if _remote_host(word.text)]
    if not remote:
        if call.name == "rsync" and any(name.startswith("--delete") for name, _ in found):
            call.rule("destroy.folder")
            if any(call.reader.findings.places.is_above(call.path(word)[0]) for word in rest[-1:]):
                call.rule("destroy.root")
        call.reads(*rest[:-1])
        call.writes(*rest[-1:])
        if call.name in ("sftp", "ftp", "lftp") and rest:
            call.reader.findings.calling(rest[0].text.rpartition("@")[2], "net.login")
        return Out("")
    for word in remote:
        call.reader.findings.calling(_remote_host(word.text), "net.login")
    if rest and rest[-1] in remote:
        if "secret" in call.reads(*[word for word in rest[:-1] if word not in remote]).kinds:
            call.rule("secret.sent")
        call.rule("net.upload")
    else:
        call.writes(*rest[-1:])
    return Out("")


def _remote_host(text: str) -> str:
    if "://" in text:
        return host_of(text)
    found = re.match(r"^(?:[^@/:]+@)?(\[[^\]]+\]|[^/:@]+)::?", text)
    return found[1] if found else ""


def _lookup(call: Call) -> Out:
    _, rest = options(call.args, "-p -t -c -i -W -w -s -x" if call.name != "getent" else "")
    for word in rest:
        text = word.text.lstrip("@")
        if word.kinds & {"command", "secret", "file"}:
            call.rule("secret.sent" if "secret" in word.kinds else "net.dns-data")
        elif "." in text or text == "localhost":
            call.reader.findings.calling(text, "net.probe")
    return Out(None, frozenset({"remote"}))


def _telnet(call: Call) -> Out:
    _, rest = options(call.args, "-l -b -p")
    call.reader.findings.calling(rest[0].text if rest else "", "net.raw")
    return Out(None, frozenset({"remote"}))


def _http(call: Call) -> Out:
    _, rest = options(call.args, "-a --auth -A -o --output -d")
    words = [
        word for word in rest if word.text.upper() not in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
    ]
    local = bool(words) and call_url(call, words[0])
    for word in words[1:]:
        _sent(call, word, is_local=local)
    if any(word.text.upper() in ("POST", "PUT", "DELETE", "PATCH") for word in rest) and not local:
        call.rule("net.post")
    return Out(None, frozenset({"remote"}))


def _download(call: Call) -> Out:
    _, rest = options(call.args, "-o -d -x -f -P -O --dir --out")
    for word in rest:
        if "." in word.text:
            call_url(call, word)
    return Out(None, frozenset({"remote"}))


HANDLERS: dict[str, Handler] = {
    "curl": _curl,
    "wget": _wget,
    **dict.fromkeys(("nc", "ncat", "netcat", "socat"), _raw),
    **dict.fromkeys(("ssh", "autossh", "mosh", "sshfs"), _ssh),
    **dict.fromkeys(("scp", "rsync", "sftp", "ftp", "lftp"), _copy_over),
    **dict.fromkeys(names("dig nslookup host ping ping6 traceroute whois resolvectl getent mtr"), _lookup),
    **dict.fromkeys(("telnet", "tftp", "smbclient"), _telnet),
    **dict.fromkeys(("http", "https", "xh"), _http),
    **dict.fromkeys(("aria2c", "axel", "youtube-dl", "yt-dlp", "w3m", "lynx", "links", "elinks"), _download),
}
