"""Programs that make, change and remove files, of the network and of containers. See `core.security.command.table`."""

from __future__ import annotations

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
SUBCOMMANDS = {
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
