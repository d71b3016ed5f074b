"""Programs that look, search and print, and those that start others. See `core.security.command.table`."""

from __future__ import annotations

TABLE = """
~ cat tac nl rev | -nbsAEvteTuhw --number --number-nonblank --show-all --squeeze-blank --show-ends
        --show-tabs --help --version | r*
~ head tail | -qvzfF -# -n= -c= --lines= --bytes= --quiet --verbose --follow? --retry --pid= -s= --help --version | r*
~ less more | -NRSXFeiInqr -# | r* | !strict
~ wc | -lwcmL --lines --words --chars --bytes --help --version | r*
~ ls dir vdir | -laAbBcCdfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1 --all --almost-all --color? --full-time
        --group-directories-first --human-readable --recursive --sort= --time= --time-style= --inode --size
        --classify? --ignore= --hide= --help --version --reverse --directory --dereference | r*
~ tree | -adfilqsphugDFrtcUvXJnNCA -L= -I= -P= -H= --noreport --dirsfirst --prune --gitignore --du
        --charset= --filelimit= --sort= --version --help | r*
~ stat | -Lft -c= --format= --printf= --dereference --file-system --terse | r*
~ file | -bihikLmNprsz0 --mime --mime-type --mime-encoding --brief --dereference | r*
~ du | -abcdhHklLmsSxDP0 -#  --max-depth= -d= --apparent-size --human-readable --summarize --all --total
        --exclude= --time? --threshold= --si | r*
~ df | -ahHiklmTPl --human-readable --type= --total --output? --print-type --inodes --local -t= -x= -B= | r*
~ basename dirname | -az -s= --suffix= --multiple --zero | t*
~ realpath readlink | -efmLPqszn --relative-to= --relative-base= --canonicalize --canonicalize-existing
        --canonicalize-missing --no-newline | r*
~ md5sum sha1sum sha256sum sha512sum cksum sum b2sum | -bctwz --check --ignore-missing --quiet --status
        --strict --tag --binary --text -a= | r*
~ cmp | -blsn --silent --quiet --verbose --bytes= -i= -n= | r*
~ diff | -abBcdeEfHilnNpPqrsStTuUvwyZ -# -U= -C= -I= -x= -L= -W= --color? --brief --recursive --unified?
        --context? --side-by-side --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case
        --new-file --report-identical-files --suppress-common-lines --strip-trailing-cr --exclude= --label= --width=
        --minimal --stat --text --help | r*
~ comm | -123iz --check-order --nocheck-order --output-delimiter= --total | r*
~ join | -iz -a= -e= -1= -2= -t= -o= -v= -j= --header | r r
~ cut | -snz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement --output-delimiter=
        --only-delimited | r*
~ paste | -sz -d= --delimiters= --serial | r*
~ column | -tnxeJL -s= -o= -c= -N= -R= -H= -T= --table --separator= --output-separator= --table-columns= --json | r*
~ fold fmt | -bcstu -w= --width= --spaces -# | r*
~ expand unexpand | -ai -t= | r*
~ od | -abcdfhilosvx -A= -j= -N= -t= | r*
~ hexdump hd | -bcCdovx -n= -s= | r*
~ xxd | -abeipruE -c= -g= -l= -s= -o= | r?
~ strings | -afo -n= -t= -e= -# | r*
~ tr | -cCdst --delete --complement --squeeze-repeats --truncate-set1 | t t?
~ seq | -w -s= -f= | t*
~ yes | | t*
~ sleep | | t*
~ date | -uRI -d= --date= --iso-8601? --rfc-3339= --utc --universal | t?
~ cal ncal | -1hjmy3 -A= -B= | t*
~ uname arch nproc whoami id groups hostname logname tty uptime who w users locale getconf lsb_release free
        vmstat lscpu lsblk lsusb lspci sw_vers | -abcdfghiklmnoprsuvGAxsMtzIhwe --all --human --si --version --help
        | t*
~ ps | -aAeflLFjtTwxuc -o= -p= -C= -u= -U= -t= --sort= --no-headers --forest --pid= --ppid= -:aux -:ef | t?
~ pgrep pidof | -alcfinovxL -u= -P= -t= -d= | t*
~ top | -bcHiS -n= -p= -d= -u= -o= |
~ lsof | -PnliaUt -i? -p= -c= -u= --version | r*
~ ss netstat | -tulnpaersimogwx --all --listening --tcp --udp --numeric --processes | t*
~ which whereis | -abms --all | t*
~ man | -kf | t? t | !man
~ tput | | t*
~ clear reset | |
~ true false | | t*
~ echo | -neE | t*
~ printenv | -0 | t* | !printenv
~ grep egrep fgrep zgrep | -acEFGhHiIlLnoqrRsTuvwxyzPbUZ -# -A= -B= -C= -m= -e=e -f=f -d= -D= --include=
        --exclude= --exclude-dir= --exclude-from=r --color? --colour? --count --only-matching --recursive
        --ignore-case --invert-match --line-number --files-with-matches --files-without-match --with-filename
        --no-filename --word-regexp --line-regexp --extended-regexp --fixed-strings --perl-regexp --basic-regexp
        --quiet --silent --no-messages --max-count= --context= --after-context= --before-context= --regexp=e
        --file=f --text --null --null-data --binary-files= --version --help --line-buffered --label= | p r* | !grep
~ rg | -acFHiIlLnNopPqSsUuvwxz0. -A= -B= -C= -m= -e=e -f=f -g= -t= -T= -j= -M= -r= -d= --glob= --iglob=
        --type= --type-not= --type-add= --type-list --hidden --no-ignore --no-ignore-vcs --files
        --files-with-matches --files-without-match --count --count-matches --ignore-case --smart-case
        --case-sensitive --fixed-strings --word-regexp --line-number --no-line-number --no-heading --heading
        --no-filename --with-filename --color= --colors= --context= --after-context= --before-context= --max-count=
        --max-depth= --max-columns= --multiline --multiline-dotall --only-matching --invert-match --json --stats
        --sort= --sortr= --replace= --pcre2 --regexp=e --file=f --quiet --vimgrep --trim --follow --text --null
        --passthru --version --help --threads= --no-messages --line-regexp --unrestricted --column --no-config
        --max-filesize= --glob-case-insensitive --debug | p r* | !grep
~ ag ack | -acGhHilLnoQrRsvwzS -A= -B= -C= -m= -G= --python --js --ts --type= --ignore= --hidden --nocolor
        --nogroup --color --group --count --literal --files-with-matches --smart-case --word-regexp | p r* | !grep
  fd fdfind | -HIuisgFaltL0pq1 -e= -t= -E= -d= -c= -S= -j= --hidden --no-ignore --extension= --type=
        --exclude= --max-depth= --min-depth= --glob --fixed-strings --absolute-path --follow --full-path --color=
        --size= --changed-within= --changed-before= --case-sensitive --ignore-case --print0 --list-details --version
        --help --max-results= | p? r* | !find_names
  find | | a | !find
~ yq | -eCPnrNjM -i -o= -p= -I= --inplace --output-format= --input-format= --null-input --no-colors
        --version --help | p r* | !jq
~ jq gojq | -acCeGijMnrRsSyPjN --arg=2 --argjson=2 --args --jsonargs
        --compact-output --raw-output --raw-input --null-input --slurp --sort-keys --tab --indent= --exit-status
        --join-output --monochrome-output --color-output --stream --seq -L= --version --help -o= -p= | p r* | !jq
  sed gsed | -nErszu -e=e -l= -i? --in-place? --expression=e --quiet --silent --regexp-extended --null-data
        --separate --unbuffered --follow-symlinks --posix --debug --help --version | p r* | !sed
  awk gawk mawk nawk | -F= -v= --field-separator= --assign= --version | p r* | !awk
~ sort | -bdfghiMnRrVcCmsuz -k= -t= -S= -o=w --key= --field-separator= --output=w --unique --reverse
        --numeric-sort --human-numeric-sort --version-sort --general-numeric-sort --ignore-case --dictionary-order
        --stable --zero-terminated --check? --merge --parallel= --buffer-size= --random-sort --month-sort
        --ignore-leading-blanks --help --version -T=w | r* | !strict
~ uniq | -cdDiuz -f= -s= -w= --count --repeated --all-repeated? --unique --ignore-case --skip-fields=
        --skip-chars= --check-chars= | r? w?
~ shuf | -erz -i= -n= -o=w --echo --input-range= --head-count= --output=w --repeat | r*
~ tsort | | r?
  tee | -aip --append --ignore-interrupts | w*
~ base64 base32 | -di -w= --decode --wrap= --ignore-garbage -D | r?
~ iconv | -lcs -f= -t= -o=w --from-code= --to-code= --output=w --list | r*
~ numfmt factor expr | | t* | !strict
~ bc | -lqi | r*
  xargs | -0rtx -n= -P= -I= -L= -d= -s= -a=r -E= --null --no-run-if-empty --max-args= --max-procs= --replace?
        --verbose --arg-file=r --delimiter= --max-lines? | a | !xargs
  env | -iv0 -u= -C=C --ignore-environment --unset= --chdir=C --null | a | !env
  nice | -n= -# --adjustment= | $
  ionice | -t -c= -n= | $
  nohup | | $
  setsid | -cfw --fork --wait --ctty | $
  time gtime | -pv -f= --format= --verbose --portability | $
  timeout gtimeout | -v -k= -s= --kill-after= --signal= --preserve-status --foreground --verbose | t $
  stdbuf unbuffer | -i= -o= -e= --input= --output= --error= | $
  caffeinate | -dimsu | $
  sudo doas | -EHnSkbAi -u= -g= -p= --user= --group= --preserve-env? --non-interactive --stdin | $ | rights.root !sudo
"""
