"""Programs for the network, containers and clusters."""

from __future__ import annotations

import re

from core.secrets.variable_names import is_secret_name
from core.security.hosts import host_of, is_local
from core.security.paths import Region
from core.security.shell.expansion import Value
from core.security.shell.program_call import Call, names_secret
from core.security.shell.program_table import Arguments, Handler

_BUILD = (
    " -q -t= -f=r --tag= --file=r --build-arg= --target= --no-cache --pull --load --platform= --progress=/\\w+/"
    " --label= --quiet --rm"
)
_CONTEXT = "/\\.\\x2f?|(?:\\.\\x2f)?\\w[\\w-]*(?:\\x2f[\\w.-]*)*/"
_WORD = "/[\\w.@:\\x2f$-]+/"

TABLE = f"""
  openssl | | @openssl
  curl | -sSfLIiOkvgGN#0123456 -o=w -d=t -F=t -T=t -H=t -X=t -u=t -A=t -e=t -w=/(?![^@]*%output)[^@]*/ -m=
        --output=w --data=t --data-raw=t --data-binary=t --data-urlencode=t --json=t --form=t --upload-file=t
        --header=t --request=t --user=t --user-agent=t --referer=t --write-out=/(?![^@]*%output)[^@]*/ --max-time=
        --connect-timeout= --retry= --retry-delay= --retry-all-errors --url=u --silent --show-error --fail
        --fail-with-body --location --head --include --remote-name --insecure --verbose --get --no-buffer
        --compressed --http1.1 --http2 --tlsv1.2 --tlsv1.3 --ipv4 --proto=/=https/ --create-dirs --version --help |
        u* | !curl
  wget | -qcNv -O=w -P=w -U=t --output-document=w --directory-prefix=w --quiet --no-verbose --show-progress --continue
        --tries= --timeout= --header=t --user-agent=t --no-check-certificate --spider --method=t --post-data=t
        --post-file=t --version | u* | !curl
  docker podman | --version | @docker
  docker-compose | --version | @compose
  kubectl | --version | @kubectl
  gcloud | | @gcloud
[openssl]
  rand | -:hex -:base64 | /\\d+/
  version | |
[docker]
  run | -ditP -e=t -p= -w= -u=/[\\w:$-]+/ --detach --interactive --tty --rm --init --name= --env=t --publish=
        --workdir= --entrypoint= --platform= --memory= --cpus= -v= --volume= --pull=/\\w+/ | a | container.run
        !docker_run
  build | {_BUILD} | {_CONTEXT} | container.run run.project
  buildx | | @docker_buildx
  compose | | @compose
  container image volume network system | | @docker_group
  ps images logs inspect version info top port diff history | -afqnst -n= --all --follow --tail= --format= --filter=
        --quiet --no-trunc | t* | container.run
  pull start stop restart tag | | {_WORD}* | container.run
  rm rmi kill prune | -af | t* | destroy.containers
  push | | t* | package.publish
[docker_buildx]
  build | {_BUILD} | {_CONTEXT} | container.run run.project
[docker_group]
  ls ps inspect df info logs | -aqv --all --quiet --format= --filter= | t* | container.run
  create pull | | {_WORD} | container.run
  prune rm remove | -af | t* | destroy.containers
[compose]
  ps logs ls images config top port version | -aqf --follow --tail= --all --services | {_WORD}* | container.run
        run.project
  up start restart stop build pull | -d --detach --build --no-cache --wait --quiet | {_WORD}* | container.run
        run.project
  down | --remove-orphans | | container.run run.project
[kubectl]
  get describe logs top version api-resources cluster-info explain | -Aw -n= -l= -c= -o=/(?!.*file=).*/ --namespace=
        --selector= --output=/(?!.*file=).*/ --all-namespaces --watch --tail= --since= --previous --container=
        --context= --sort-by= --show-labels | t* | cloud.read !cluster
[gcloud]
  config | | /get|get-value|list/ /project|account|core\\x2fproject/? | cloud.read
"""
"""See `core.security.shell.program_table` for the language."""

_DATA = ("-d", "-F", "-T", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--json", "--form",
         "--upload-file", "--post-data", "--post-file")  # fmt: skip
_SECRETS = frozenset(["secret.read", "secret.process", "secret.keyring", "secret.environment"])


def _is_local(values: list[Value]) -> bool:
    return bool(values) and all(value.start and is_local(host_of(value.start)) for value in values)


_FORM = re.compile(
    r"[\w.\[\]-]+=(?:[@<][^;,\"\\]+(?:;(?:type|filename)=[\w./+-]+)*|(?![@<;(])(?:(?!;\s*\w+=[@<]?).)*)", re.DOTALL
)
"""A field of a form: a text, or one file. What curl reads further files from is not in it."""


def _sent(call: Call, name: str, value: Value) -> bool:
    """Data that goes out; whether it is more than a text that stands here."""
    is_file = name in ("-T", "--upload-file", "--post-file")
    if (name in ("-F", "--form") and value.text is not None and not _FORM.fullmatch(value.text)) or (
        name in ("-T", "--upload-file") and re.search(r"[{\[]", value.start)
    ):
        raise call.fail(value, "the files that curl sends are unknown")
    found = re.match(r"(?:[^=@]*=)?[@<](.*)|[^=@]+@(.*)", value.start, re.DOTALL)
    file = value.start if is_file else (found[1] or found[2] or "") if found else ""
    if (is_file or found) and file not in {"-", "."}:
        call.reads(Value(file.split(";")[0] if value.text is not None else None, value.shown))
    return is_file or found is not None


def _curl(call: Call, arguments: Arguments) -> None:
    urls = [*arguments.operands_of("u"), *arguments.values("--url")]
    local, carries, posts = _is_local(urls), False, False
    for url in urls:
        if url.text and re.search(r"[{\[]", url.text):
            raise call.fail(url, "an address with braces")
    if arguments.has("-k", "--insecure", "--no-check-certificate") and not local:
        call.report("net.unchecked")
    for name, value in arguments.options:
        if value is None:
            continue
        if name in _DATA:
            posts, carries = True, _sent(call, name, value) or carries
        elif name in ("-H", "--header") and value.start.startswith("@"):
            raise call.fail(value, "a file of headers")
        elif name in ("-X", "--request", "--method") and (value.text or "?").upper() not in ("GET", "HEAD", "OPTIONS"):
            posts = True
        carries = carries or (value.text is None and value.is_foreign)
        if not local and names_secret(value):
            call.report("secret.sent", value.shown)
    if not local and (carries or any(value.is_foreign for value in urls)) and _SECRETS & call.findings.rules.keys():
        call.report("secret.sent")
    if not local and carries:
        call.report("net.upload")
    elif not local and posts:
        call.report("net.post")
    is_wget = call.name == "wget" and not arguments.has("-O", "--output-document", "--spider")
    if is_wget or (call.name == "curl" and arguments.has("-O", "--remote-name")):
        for value in urls:
            call.writes(Value(_saved_as(call, value, is_wget=is_wget), value.shown))


def _saved_as(call: Call, value: Value, *, is_wget: bool) -> str:
    """The file that curl and wget make of an address. Raises NotUnderstoodError where the text does not tell it."""
    if value.text is None and not value.is_foreign and re.match(r"\w+://[^/?#%]+/[^?#%]*\w[^/?#%]*$", value.start):
        return value.start.rpartition("/")[2]
    found = re.fullmatch(r"(?:\w+://)?[^/?#%]*(?:/(?:[^?#%]*/)?([^/?#%]*))?(\?[^#]*)?", value.text or "%")
    name = found[1] or ("index.html" if is_wget else "curl_response") if found else "."
    is_listed = is_wget and re.search(r"(?i)^ftps?:.*[*?\[\]]", value.start)  # every file that the pattern names
    if found is None or name in {".", ".."} or is_listed:
        raise call.fail(value, f"the name of the file that {call.name} writes")
    query = (found[2] or "").replace("/", "%2F")
    return name + query if is_wget and query != "?" else name


# -- containers and clusters -------------------------------------------------------------------------------------------


def _docker_run(call: Call, arguments: Arguments) -> None:
    mounts, has_paths = arguments.values("-v", "--volume"), False
    for value in mounts:
        source, colon, rest = value.start.partition(":")
        if not colon or value.text is None or not source:
            raise call.fail(value, "the mounted path is unknown")
        if not source.startswith((".", "/", "~")):
            continue
        has_paths = True
        path = Value(source, value.shown)
        for one in call.paths(path):
            if call.findings.places.place(one) is not Region.INSIDE:
                call.report("rights.container", value.shown)
        (call.reads if rest.endswith(":ro") else call.writes)(path)
    words = arguments.operands_of("a")
    if call.stdin.is_given:
        raise call.fail(None, "input for the container")
    for value in arguments.values("-e", "--env"):
        is_passed = value.text is not None and "=" not in value.text and is_secret_name(value.text)
        if is_passed or (value.text is None and value.is_foreign):
            call.report("secret.sent", value.shown)
    for value in (*words, *(value for _, value in arguments.options if value is not None)):
        if names_secret(value):
            call.report("secret.sent", value.shown)
    if not words or words[0].start.startswith("-") or (mounts and (words[1:] or arguments.has("--entrypoint"))):
        raise call.fail(None, "what the container runs is unknown")
    if has_paths:
        raise call.fail(None, "what the image does with the mounted files is unknown")


def _cluster(call: Call, arguments: Arguments) -> None:
    if any(re.search(r"(?i)secret", value.shown) for value in arguments.operands_of("t")):
        call.report("secret.keyring")


HANDLERS: dict[str, Handler] = {
    "cluster": _cluster,
    "curl": _curl,
    "docker_run": _docker_run,
}
