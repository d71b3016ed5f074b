"""Programs that look, search and print, and those that start others. See `core.security.command.table`."""

from __future__ import annotations

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
        --with-filename --no-filename --word-regexp --extended-regexp --fixed-strings --quiet --max-count=
        --context= --after-context= --before-context= --regexp=e --line-buffered | p r* | !grep
  rg | -acFHiIlnNoPqSsUuvwx0. -A= -B= -C= -m= -e=e -g= -t= -T= -j= -M= -r= --glob= --iglob= --type= --type-not=
        --type-list --hidden --no-ignore --files-with-matches --count --ignore-case --smart-case --fixed-strings
        --word-regexp --line-number --no-heading --heading --no-filename --color= --context= --max-count=
        --max-depth= --multiline --only-matching --invert-match --json --stats --sort= --regexp=e --no-messages
        --version | p r* | !grep
  fd fdfind | -HIuasgFl1 -e= -t= -E= -d= --hidden --no-ignore --extension= --type= --exclude= --max-depth= | t? l*
  find | | q | !find
  jq | -acCejMnrRsS --arg=2 --argjson=2 --compact-output --raw-output --raw-input --null-input --slurp --sort-keys
        --tab --indent= --exit-status | p r* | !jq
  sed | -nErsuz -e=e -i? --in-place? --expression=e --quiet --regexp-extended | p r* | !sed
  awk | -F= -v=/[a-z]\\w*=[\\w.,:-]*/ | p r* | !awk
  sort | -bdfghiMnRrVcCmsuz -k= -t= --key= --field-separator= --unique --reverse --numeric-sort
        --human-numeric-sort --version-sort | r*
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
