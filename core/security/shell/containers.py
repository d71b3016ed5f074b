"""Containers, clusters and clouds."""

from __future__ import annotations

import re

from core.security.rules import names
from core.security.shell.programs import Call, Handler, shown
from core.security.shell.words import Out, Word, options

_DOCKER_VALUES = (
    "-v -e -p -w -u -m -h -l -a --name --volume --env --env-file --publish --workdir --user --memory --cpus"
    " --network --net --entrypoint"
    " --mount --platform --label --hostname --add-host --restart --device --cap-add --cap-drop --security-opt"
    " --tmpfs --shm-size --gpus"
    " --ulimit --volumes-from --pid --ipc --userns --log-driver --dns --expose --link --cidfile --pull --index"
)


_DOCKER_LOOKS = names(
    "ps images logs inspect version info stats top port diff history ls config search events df wait context"
)


def _docker(call: Call) -> Out:
    _, rest = options(
        call.args,
        "-H --host -c --context -l --config -f --file -p --project-name --profile --env-file",
        first_ends=True,
    )
    verb, args = (rest[0].text if rest else "", rest[1:])
    if verb in ("compose",):
        _, rest = options(args, "-f --file -p --project-name --profile --env-file", first_ends=True)
        verb, args = (rest[0].text if rest else "", rest[1:])
    if verb in ("container", "image", "volume", "network", "system", "builder"):
        verb, args = (args[0].text if args else "", args[1:])
        if verb == "prune":
            call.rule("destroy.containers")
    if verb in ("run", "exec", "create"):
        return _docker_run(call, args)
    if verb in ("rm", "rmi", "prune", "kill", "down") and (
        verb != "down" or any(word.text in ("-v", "--volumes", "--rmi") for word in args)
    ):
        call.rule("destroy.containers")
    elif verb in ("push",):
        call.rule("package.publish")
    elif verb in ("login",):
        call.rule("secret.keyring")
    elif verb in names("pull build buildx up start restart stop cp commit load import save export tag down"):
        call.rule("container.run")
        if verb in ("cp",):
            call.writes(*[word for word in args[-1:] if ":" not in word.text])
            call.reads(*[word for word in args[:1] if ":" not in word.text])
    elif verb and verb not in _DOCKER_LOOKS:
        call.rule("program.unknown", f"{call.name} {verb}")
    return Out(None)


def _docker_run(call: Call, args: list[Word]) -> Out:
    found, rest = options(args, _DOCKER_VALUES, first_ends=True)
    call.rule("container.run")
    for name, value in found:
        text = value.text if value is not None else ""
        if name == "--privileged" or (name in ("--pid", "--net", "--network", "--ipc", "--userns") and text == "host"):
            call.rule("rights.container")
        if name in ("--cap-add", "--device") or (name == "--security-opt" and "unconfined" in text):
            call.rule("rights.container")
        source = text.partition(":")[0] if name in ("-v", "--volume") else ""
        if name == "--mount":
            source = next(
                (part.partition("=")[2] for part in text.split(",") if part.startswith(("source=", "src="))), ""
            )
        if source and value is not None:
            path, _ = call.path(Word(source, source, value.known))
            place = call.reader.findings.places
            if path in (
                "/",
                "/etc",
                "/root",
                "/home",
                "/var/run/docker.sock",
                "/run/docker.sock",
                "/proc",
                "/sys",
                "/dev",
                place.home,
            ):
                call.rule("rights.container", text)
            elif source.startswith(("/", ".", "~", "$")) and not text.endswith(":ro"):
                call.writes(Word(source, source, value.known))
        if name == "--env-file" and value is not None:
            call.reads(value)
    entry = next((value for name, value in found if name == "--entrypoint" and value is not None), None)
    command = [*([entry] if entry is not None else []), *rest[1:]]
    return call.again(command) if command else Out(None)


def _kubectl(call: Call) -> Out:
    found, rest = options(
        call.args,
        "-n -c -f -l -o --namespace --context --kubeconfig --container --selector -k --output",
        first_ends=False,
    )
    texts = [word.text for word in call.args]
    verb = rest[0].text if rest else ""
    del found
    if verb in ("exec", "run", "debug") and "--" in texts:
        call.rule("run.remotely")
        return call.again(call.args[texts.index("--") + 1 :])
    if verb == "get" and any(re.match(r"secrets?\b", word.text) for word in rest[1:]):
        call.rule("secret.keyring")
    elif verb in names(
"get describe logs top version explain api-resources cluster-info diff list status show"
" template lint search history events whoami project config repo"):  # fmt: skip
        call.rule("cloud.read")
    elif verb in ("delete", "drain", "uninstall", "rollback"):
        call.rule("destroy.data")
    else:
        call.rule("cloud.change")
    return Out(None, frozenset({"remote"}))


_READ_VERB = re.compile(r"^(?:describe|list|get|ls|show|head|wait|help|version|validate|plan|fmt|output|graph"
                        r"|providers|status|info|logs?|"
                        r"whoami|search|lookup|explain|diff|print|filter|query|config|projects|current|inspect"
                        r"|init)(?:-|$)")  # fmt: skip


def _cloud(call: Call) -> Out:
    _, rest = options(
        call.args,
        "--region --profile --output --query --project --zone -g -n -o --resource-group --subscription --endpoint-url",
    )
    texts = [word.text for word in rest]
    line = " ".join(texts)
    if re.search(r"secretsmanager get|ssm get-parameter|sts get-session|iam create-access|print-access-token"
                 r"|get-credentials|keyvault secret|"
                 r"configure (?:get|export)|secrets versions access|get-access-token|ecr get-login"
                 r"|auth (?:token|print|login)|config:get|state pull", line):  # fmt: skip
        call.rule("secret.keyring")
    elif re.search(r"\bs3 (?:cp|sync|mv)\b|^(?:cp|rsync|mv|copy|sync|put|copyto)\b", line):
        last = texts[-1] if texts else ""
        if re.match(r"^(?:s3|gs|az|r2)://|^[\w-]+:", last):
            if (
                "secret"
                in call.reads(*[word for word in rest[1:-1] if not re.match(r"^\w+:|cp|sync|mv|s3", word.text)]).kinds
            ):
                call.rule("secret.sent")
            call.rule("net.upload")
        else:
            call.rule("net.fetch")
            call.writes(*rest[-1:])
    elif re.search(
        r"\b(?:destroy|delete|terminate|remove|rm|rb|purge|detach)\b|\bdelete-|terminate-|--delete",
        line + " " + shown(call.args),
    ):
        call.rule("destroy.data")
    elif any(_READ_VERB.match(text) for text in texts[:4]) or (
        call.args and call.args[0].text in ("--version", "version")
    ):
        call.rule("cloud.read")
    else:
        call.rule("cloud.change")
    return Out(None, frozenset({"remote"}))


def _ansible(call: Call) -> Out:
    call.rule(
        "cloud.read"
        if any(word.text in ("--check", "--syntax-check", "--version", "--list-hosts") for word in call.args)
        else "cloud.change"
    )
    found, _ = options(call.args, "-m -a -i -u -e")
    for name, value in found:
        if name == "-a" and value is not None:
            call.reader.inside(value.text, call.state)
    return Out(None)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), _docker),
    **dict.fromkeys(("kubectl", "oc", "helm", "minikube", "kind", "k9s", "crictl", "kustomize"), _kubectl),
    **dict.fromkeys(
        names(
            "terraform tofu pulumi aws gcloud gsutil az doctl heroku fly flyctl vercel netlify"
            " wrangler firebase eksctl s3cmd rclone mc restic borg vagrant"
        ),
        _cloud,
    ),
    **dict.fromkeys(("ansible", "ansible-playbook"), _ansible),
}
