"""Programs of the network, containers, clusters, clouds and databases. See `core.security.command.table`."""

from __future__ import annotations

_DOCKER_RUN = (
    " -ditPqT -v= -e= -p= -w= -u= -m= -h= -l= -a= --detach --interactive --tty --rm --init --read-only --name="
    " --volume= --env= --env-file=r --publish= --publish-all --workdir="
    " --user= --memory= --memory-swap= --cpus= --cpu-shares= --network= --net= --entrypoint= --mount= --platform="
    " --label= --hostname= --add-host= --restart= --tmpfs= --shm-size= --gpus="
    " --ulimit= --stop-timeout= --log-driver= --log-opt= --dns= --expose= --link= --cidfile=w --pull="
    " --health-cmd= --quiet --no-healthcheck --privileged --pid= --ipc= --userns= --uts="
    " --cap-add= --cap-drop= --device= --security-opt= --volumes-from= --cgroupns= --cgroup-parent= --runtime="
    " --group-add= --index= --detach-keys= --no-deps --service-ports --build -T --remove-orphans --sig-proxy?"
    " --pids-limit="
)
_COMPOSE = (
    " -dfaqvtsVTi -n= --follow --detach --build --force-recreate --no-build --no-deps --remove-orphans --pull?"
    " --quiet --tail= --timestamps --since= --until= --volumes --rmi= --timeout= -t= --all --services --format="
    " --scale= --wait --no-start --no-cache --parallel --progress= --watch --abort-on-container-exit"
    " --exit-code-from= --no-log-prefix --no-color --index= --filter= --orphans --renew-anon-volumes --force"
    " --stop --env= -e= --rm --dry-run --menu? --yes -y"
)
_CLUSTER = (
    " -hAawoRlfvi -n= -c= -f=r -l= -o= -k=r -p= --namespace= --context= --kubeconfig=r --container= --selector="
    " --output= --all-namespaces --watch --follow --tail= --since= --previous --timestamps"
    " --show-labels --sort-by= --field-selector= --no-headers --help --version --client --short --timeout= --for="
    " --filename=r --kustomize=r --recursive --dry-run? --replicas= --image= --port= --all"
    " --wait? --server-side --force-conflicts --record --overwrite --type= --name= --image-pull-policy= --restart="
    " --set= --set-string= --values=r --version= --create-namespace --install --atomic"
    " --repo=u --config=r --retain --cpus= --memory= --driver= --address= --nodes= --grace-period= --force"
    " --ignore-not-found? --max-log-requests= --prefix --template= --raw= --list --quiet --verbose --debug --devel"
    " --project= --zone= --region= --profile= --format= --filter= --limit= --query= --location= --cluster= --json"
    " --web --state= --author= --assignee= --label= --search= --branch= --comments --repo= -R= -s= -L= -t= -r="
    " --jq= -q= --log --log-failed --exit-status --clobber --dir=w --pattern= --archive="
)

TABLE = f"""
  curl | -sSfLIiOkvgGNJRqjaZ#0123456 -o=w -d= -F= -T= -H= -X= -u= -A= -e= -b= -c=w -w= -m= -x=u -r= -y= -Y=
        -z= -C= -D=w -E=r --output=w --data= --data-raw= --data-binary= --data-ascii= --data-urlencode= --json=
        --form= --form-string= --upload-file= --header= --request= --user= --user-agent= --referer= --cookie=
        --cookie-jar=w --write-out= --max-time= --connect-timeout= --retry= --retry-delay= --retry-max-time=
        --retry-all-errors --retry-connrefused --dump-header=w --range= --limit-rate= --url=u --oauth2-bearer=
        --url-query= --silent --show-error --fail --fail-with-body --location --head --include --remote-name
        --remote-name-all --remote-header-name --insecure --verbose --globoff --get --no-buffer --compressed
        --http1.1 --http2 --tlsv1.2 --tlsv1.3 --ipv4 --ipv6 --progress-bar --proto= --proto-redir= --create-dirs
        --max-redirs= --no-progress-meter --cacert=r --basic --path-as-is --proxy=u --noproxy= --post301
        --location-trusted --parallel --ssl-reqd --continue-at= --max-filesize= --version --help? --unix-socket=r
        --trace-time --etag-save=w --etag-compare=r | u* | !curl
  wget | -qcNrlpkEHxSb46v -O=w -P=w -U= -t= -T= -w= -n? --output-document=w --directory-prefix=w --quiet
        --no-verbose --show-progress --progress= --continue --timestamping --no-clobber --tries= --timeout=
        --header= --user-agent= --no-check-certificate --spider --recursive --level= --no-parent --mirror
        --convert-links --page-requisites --limit-rate= --max-redirect= --server-response --content-disposition
        --https-only --retry-connrefused --waitretry= --no-cache --no-cookies --method= --post-data= --post-file=
        --body-data= --body-file= --user= --password= --referer= --accept= --reject= --secure-protocol= --version
        --help -A= -R= | u* | !wget
  http https xh httpie | -bhvjf --json --form --headers --body --print= -p= --timeout= --check-status --follow
        -F --ignore-stdin | t* | !httpie
  ssh | -46AaCfgKknNqsTtvXxYy -p= -i=r -l= | t $? | net.login !ssh
  scp sftp | -346ABCpqrTv -P= -i=r -l= | t* | !copy_over
  nc ncat netcat | -46bdhklnNrtuUvz -p= -s= -w= -q= -i= --ssl --listen --wait= | t* | !netcat
  socat telnet ftp lftp tftp smbclient | -v | t* | net.raw
  ngrok cloudflared localtunnel lt bore | --url= --port= | t* | net.open
  nmap masscan zmap nikto hydra sqlmap gobuster | -sVSTUAPnvFO -p= -T? -p? --open --top-ports= | t* | net.scan
  dig nslookup host drill | -x4t6 -t= -p= | t* | !lookup
  ping ping6 traceroute tracepath mtr whois | -46AaBbDdfhLnOqRrUv -c= -i= -w= -W= -s= -t= -m= -r? | t* | !lookup
  getent ip ifconfig route arp resolvectl hostnamectl timedatectl iwconfig | -46srdjh -:br -:brief -:json
        -:color --brief | t* | !look_only
  docker podman nerdctl | -vD -H= -c= --host= --context= --config= --version --help --debug | @docker
  docker-compose podman-compose | -f=r -p= --file=r --project-name= --profile= --env-file=r
        --project-directory=C --version | @compose
  kubectl oc helm minikube kind kustomize k3d k9s stern kubectx kubens crictl skaffold argocd flux |
        {_CLUSTER} | t* | !cluster
  gcloud gsutil aws az doctl heroku fly flyctl vercel netlify firebase eksctl terraform tofu pulumi wrangler |
        {_CLUSTER} -:auto-approve -:out=w -:var= -:var-file=r -:json -:no-color -:input= -:target= -:upgrade
        -:destroy -:refresh= -:chdir=C -:check -:diff -:recursive --recursive --yes --delete --exact-timestamps
        --endpoint-url=u --bucket= --key= --no-cli-pager --prod | t* | !cloud
  gh glab hub | {_CLUSTER} -t= -b= -F= -H= -X= -f= --title= --body= --body-file=r --base= --head= --draft
        --fill --method= --field= --raw-field= --header= --paginate --input=r --delete-branch --squash --merge
        --rebase --auto --admin --public --private --clone --description= --reviewer= --milestone= --yes --hostname=
        --interval= --name-only --files --stat --remote --source= --push --default --web --with-token --scopes= | t*
        | !hub
  psql mysql mariadb mongosh redis-cli mongo | -h= -U= -d= -p= -c= -u= -P= -e= -D= -n= -a= -tAqXxEslw --host=
        --port= --username= --dbname= --command= --eval= --quiet --tuples-only --list --csv --version --no-psqlrc
        --no-align -v= --set= --user= --execute= --database= --batch | t* | !database
  sqlite3 sqlite | -:header -:csv -:json -:column -:readonly -:line -:list -:table -:markdown -:box -:batch
        -:bail -:version -:separator= | w t* | !sqlite
  dropdb pg_restore | | t* | destroy.data
  createdb pg_dump mysqldump pg_isready | -h= -U= -p= -d= -F= -f=w -u= -sacOxwv --host= --username= --port=
        --file=w --schema-only --data-only --format= | t* | database.query
  ansible ansible-playbook | --check --syntax-check --version --list-hosts --list-tasks -i=r | t* | cloud.change
  mail mailx sendmail mutt swaks | -s= -t -a= -r= | t* | message.sent
  secret-tool keyring pass op bw vault security | | t* | secret.keyring
"""
SUBCOMMANDS = {
    "docker": f"""
  run create exec | {_DOCKER_RUN} | a | container.run !docker_run
  compose | -f=r -p= --file=r --project-name= --profile= --env-file=r --project-directory=C --version --ansi=
        --progress= | @compose
  container image volume network system builder manifest | | @docker_group
  buildx | | @docker_group
~ ps images logs inspect version info stats top port diff history search events wait context df ls scout |
        -afqlnst -# -n= -f? --all --follow --tail= --format= --filter= --quiet --no-trunc --since= --until=
        --no-stream --timestamps --size --latest --digests --last= | t*
  build | -q -t= -f=r --tag= --file=r --build-arg= --target= --no-cache --pull --push --load --platform=
        --progress= --label= --network= --quiet --rm --cache-from= --cache-to= --output=w --builder= --provenance=
        --sbom= --iidfile=w --squash --force-rm -o=w | t* | container.run run.project
  pull start restart stop pause unpause load import save export tag rename update attach commit wait | -aiqt
        -o=w -i=r -t= -m= -a= --time= --output=w --input=r --quiet --all-tags --platform= --attach --interactive
        --message= --author= --change= --signal= | t* | container.run
  cp | -aLq | t t | container.run !docker_cp
  rm rmi kill prune | -fvl -s= --force --volumes --signal= --all --filter= | t* | destroy.containers
  push | -aq --all-tags --quiet | t* | package.publish
  login logout | -u= -p= --username= --password-stdin --password= | t* | secret.keyring
""",
    "docker_group": f"""
  run create | {_DOCKER_RUN} --driver= --subnet= --use | a | container.run !docker_run
~ ls list ps inspect df info logs top stats events history imagetools du version | -aqv --all --quiet
        --filter= --format= --no-trunc --verbose --raw --tail= -f? -n= | t*
  prune rm remove kill rmi | -afv --all --force --filter= --volumes | t* | destroy.containers
  start stop restart pull tag connect disconnect bake use build | -f=r -t= -q --tag= --file=r --platform=
        --push --load --no-cache --pull --build-arg= --target= --progress= --time= --set= --output= --cache-from=
        --cache-to= --print --builder= --quiet --label= --provenance= | t* | container.run run.project
  push | -aq --all-tags --quiet | t* | package.publish
""",
    "compose": f"""
~ ps logs ls images config top port events version stats | {_COMPOSE} | t*
  up start restart stop build pull create pause unpause watch kill wait scale | {_COMPOSE} | t* |
        container.run run.project
  down rm | {_COMPOSE} | t* | container.run run.project !compose_down
  run exec | {_DOCKER_RUN} | a | container.run run.project !docker_run
  push | | t* | package.publish
""",
    "openssl": """
~ version rand dgst x509 verify list prime | -:hex -:base64 -:sha256 -:sha512 -:sha1 -:md5 -:in=r -:noout
        -:text -:subject -:issuer -:dates -:fingerprint -:enddate -:startdate -:serial -:a -:r -:CAfile=r | t* |
        !strict
  genrsa genpkey req ecparam rsa pkcs12 | -:out=w -:in=r -:newkey= -:keyout=w -:nodes -:days= -:subj= -:x509
        -:new -:name= -:genkey -:noout -:algorithm= -:pubout -:key=r -:addext= -:batch -:sha256 | t*
  s_client s_server | -:connect= -:servername= -:showcerts -:brief | t* | net.raw
""",
    "systemctl": """
~ status show is-active is-enabled cat list-units list-unit-files list-timers is-failed | -alq -n= -t= -p=
        --no-pager --user --all --type= --state= --full --lines= --property= | t*
  poweroff reboot halt suspend hibernate kexec rescue emergency | -f | | machine.power
  start stop restart reload enable disable mask unmask daemon-reload edit set-default reset-failed kill |
        --now --user --force -f | t* | machine.service
""",
}
