"""Programs that make, change, pack and remove files, and those that act on the machine."""

from __future__ import annotations

TABLE = """
~ mkdir | -pvZ -m= --parents --verbose --mode= | w*
~ touch | -acmh -d= -t= -r=r --date= --time= --reference=r --no-create --no-dereference | w*
~ rmdir | -pv --parents --ignore-fail-on-non-empty --verbose | d*
~ unlink | | d
~ rm | -rRfivIdP --recursive --force --interactive? --verbose --dir --one-file-system --preserve-root?
        --no-preserve-root | t* | !rm
~ trash trash-put | -rRfv | t* | !rm
  shred | -fuvzx -n= -s= --remove? --zero --force --iterations= | d* | destroy.work
~ cp | -aAbdfHilLnPpRrsTuvxZ -t=t -S= --archive --backup? --force --interactive --no-clobber --recursive
        --verbose --preserve? --no-preserve= --parents --update? --target-directory=t --no-target-directory
        --dereference --no-dereference --link --symbolic-link --reflink? --sparse= --remove-destination
        --strip-trailing-slashes --suffix= --one-file-system --help --version | t* | !copy
~ mv | -bfinTuvZ -t=t -S= --force --interactive --no-clobber --verbose --update? --target-directory=t
        --no-target-directory --backup? --suffix= --strip-trailing-slashes | t* | !copy
~ install | -bcCDpTvds -t=t -m= -o= -g= -S= --mode= --owner= --group= --target-directory=t --directory
        --compare --preserve-timestamps --strip --verbose --backup? | t* | !copy
  ln | -sfinrTvbLP -t=t --symbolic --force --relative --no-dereference --verbose --target-directory=t
        --interactive --no-target-directory | t* | !link
~ chmod | -cfRvh --changes --recursive --verbose --quiet --silent --reference=r | t* | !chmod
  chown chgrp | -cfRvhHLP --recursive --verbose --no-dereference --reference=r --from= | t* | !chmod rights.many
~ truncate | -co -s= -r=r --size= --no-create --reference=r | w* | !truncate
~ fallocate | -dnvxz -l= -o= --length= --offset= | w
  dd | | t* | !dd
  mktemp | -dqut -p=w --directory --dry-run --quiet --tmpdir?w --suffix= | w?
  tar gtar bsdtar | -cxtruzjJavphkmOSlUWBn -f=f -C=C -X=r --file=f --directory=C --create --extract --list
        --get --append --update --gzip --bzip2 --xz --zstd --lzma --auto-compress --verbose --exclude=
        --exclude-from=r --exclude-vcs --exclude-vcs-ignores --strip-components= --preserve-permissions --same-owner
        --no-same-owner --no-same-permissions --keep-old-files --overwrite --wildcards --no-wildcards --anchored
        --transform= --xform= --totals --to-stdout --sort= --mtime= --owner= --group= --numeric-owner --numeric-ids
        --one-file-system --dereference --touch --version --help --format= --skip-old-files --no-recursion --null
        --warning= | t* | !tar
  zip | -rqvjDuf9876543210yXo@lA -x= -i= -P= --exclude= --include= --recurse-paths --quiet --symlinks
        --junk-paths | w t* | !zip
  unzip | -oqnljLtpvZaCXB -d=C -x= -P= | r t* | !unpack
  gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd pigz lz4 | -cdfklnqrtv -# --stdout --decompress --keep --force
        --best --fast --recursive --test --list --verbose --quiet -T= --threads= | t* | !compress
~ zcat bzcat xzcat zstdcat | -fq | r*
~ zipinfo | -12lmhtzCTv | r t*
  7z 7za | -y -o=C -p= -m= | t r t* | !unpack
  patch | -bcfNRstuZ -p= -F= -i=r --strip= --fuzz= --input=r --dry-run --reverse --forward --batch --silent
        --quiet --verbose --binary --backup --unified | w? r? | !patch
  split | -dx -b= -l= -n= -a= -C= --bytes= --lines= --number= --numeric-suffixes? --suffix-length=
        --additional-suffix= --verbose | r? w? | !split
  rsync | -aAhHilnNogOpPqrRtuvxXzcCDEIJLSWbkK -B= --archive --verbose --progress --recursive --delete
        --delete-after --delete-before --delete-during --delete-excluded --dry-run --exclude= --include=
        --exclude-from=r --include-from=r --compress --human-readable --partial --stats --size-only
        --ignore-existing --update --checksum --links --perms --times --no-owner --no-group --no-perms --bwlimit=
        --info= --itemize-changes --copy-links --safe-links --relative --quiet --inplace --port= --mkpath
        --existing --ignore-times --prune-empty-dirs --numeric-ids --chmod= | t* | !copy_over
  pkill killall | -efxiogvqw -# -n -s= -u= --signal= --exact --full -:9 -:KILL -:TERM -:HUP -:INT -:SIGKILL
        -:SIGTERM | t* | machine.kill
  systemctl | --user --no-pager -al -t= -n= --type= --all --state= --no-legend | @systemctl
  service | | t* | machine.service
  journalctl | -abefkqrxu -n= -u= -p= -o= -S= -U= -t= --no-pager --since= --until= --unit= --user --lines=
        --output= --follow --boot --dmesg --reverse --disk-usage | t*
  crontab | -l | | persist.cron
  shutdown reboot poweroff halt | -hrPfnkc --halt --reboot --poweroff | t* | machine.power
  vim vi nano emacs pico ed ex | -Rnu | t* | shell.interactive
  ssh-keygen | -qlvyB -t= -b= -C= -N= -f=w -E= -a= -m= | t* | !keygen
  openssl | | @openssl
  gpg gpg2 | --version --list-keys -k -K --list-secret-keys --verify --dearmor -o=w --output=w --batch --yes
        --armor | r* | net.fetch
"""
