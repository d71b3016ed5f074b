"""Git. See `core.security.command.table`. Settings that make git run something are in no row."""

from __future__ import annotations

TABLE = """
  git | -p -C=C --no-pager --paginate --version --help --no-optional-locks --literal-pathspecs
        --no-replace-objects -c= | @git | !git
"""

_LOG = (
    " -# -n= -p -u -s -S= -G= -L= -i -E -F -P -g -c -m -z -w -b -R -M? -C? -D -U= -1 --oneline --graph --all"
    " --branches? --tags? --remotes?"
    " --decorate? --no-decorate --stat? --shortstat --numstat --dirstat? --summary --name-only --name-status"
    " --patch --no-patch --raw"
    " --pretty? --format= --abbrev-commit --no-abbrev-commit --abbrev? --date= --since= --until= --after="
    " --before= --author= --committer="
    " --grep= --all-match --invert-grep --regexp-ignore-case --max-count= --skip= --merges --no-merges"
    " --first-parent --reverse --follow"
    " --cherry-pick --cherry --left-right --left-only --right-only --topo-order --date-order --color? --no-color"
    " --word-diff? --color-words?"
    " --unified= --diff-filter= --find-renames? --no-renames --no-ext-diff --minimal --patience --histogram"
    " --diff-algorithm= --ignore-all-space"
    " --ignore-space-change --ignore-blank-lines --ignore-cr-at-eol --cached --staged --exit-code --quiet --check"
    " --merge-base --relative?"
    " --text --binary --full-index --submodule? --no-prefix --show-signature --full-history --simplify-merges"
    " --source --walk-reflogs --no-index"
    " --help --function-context -W --inter-hunk-context= --pickaxe-regex --compact-summary --no-walk --no-notes"
    " --reflog --not --boundary"
    " --ignore-submodules? --textconv --no-textconv -t -r"
)
_GIT = f"""
~ - | |
~ log show diff whatchanged shortlog diff-tree diff-index diff-files range-diff | {_LOG} -e | t* | !git_paths
~ reflog | -# -n= --oneline --all --date= --format= --pretty? | t* | !git_reflog
~ status | -sbuvz --short --branch --porcelain? --long --show-stash --untracked-files? --ignored? --verbose
        --ignore-submodules? --ahead-behind --no-ahead-behind --renames --no-renames -u? | t* | run.project
~ blame annotate | -lswfenpbtM -L= -C --porcelain --line-porcelain --show-email --date= --since= --reverse
        --root --ignore-rev= --incremental | t*
~ grep | -aiIwvEFGPhHrlLnczopWq -# -e=e -A= -B= -C= -m= --cached --untracked --no-index --count --color?
        --line-number --files-with-matches --ignore-case --word-regexp --name-only --heading --break --max-depth=
        --and --or --not --all-match --recursive --column --extended-regexp --fixed-strings --perl-regexp --no-color
        --show-function --function-context | t* | !git_paths
~ ls-files ls-tree | -cdmoiskuztrlv -x= -X=r --cached --deleted --modified --others --ignored --stage
        --exclude= --exclude-from=r --exclude-standard --directory --full-name --error-unmatch --name-only
        --name-status --abbrev? --long --full-tree --eol --unmerged --recurse-submodules --format= | t*
~ rev-parse rev-list merge-base name-rev describe show-ref for-each-ref symbolic-ref cat-file show-branch
        count-objects var check-ignore check-attr verify-commit verify-tag version help hash-object cherry
        ls-remote-local merge-tree | -qptsevnrdhzmac -# -n= --short? --verify --abbrev-ref? --symbolic-full-name
        --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-path= --git-common-dir
        --is-inside-work-tree --is-bare-repository --is-shallow-repository --all --branches? --tags? --remotes?
        --quiet --count --max-count= --since= --until= --left-right --objects --no-merges --merges --first-parent
        --reverse --is-ancestor --fork-point --octopus --always --dirty? --long --match= --exclude= --exact-match
        --abbrev? --candidates= --contains --heads --hash? --format= --sort= --points-at= --merged? --no-merged?
        --contains? --name-only --batch --batch-check? --no-index --verbose --human-readable --stdin --symbolic --sq
        --parents --oneline --pretty? --author= --grep= --exclude-standard | t* | !git_paths
  add stage | -nvfiuANpe --dry-run --verbose --force --update --all --no-all --patch --interactive
        --intent-to-add --refresh --ignore-errors --ignore-missing --renormalize --chmod= --sparse
        --no-ignore-removal --pathspec-from-file=r | t* | !git_paths
  commit | -aqvsneopiz -m= -F=r -C= -t=r -S? -u? --all --message= --file=r --amend --no-edit --quiet --verbose
        --signoff --no-signoff --no-verify --allow-empty --allow-empty-message --author= --date= --fixup= --squash=
        --reuse-message= --only --include --dry-run --short --porcelain --reset-author --cleanup= --trailer= --patch
        --no-gpg-sign --gpg-sign? --no-post-rewrite --template=r --untracked-files? | t* | run.project
  init | -q -b= --quiet --bare --initial-branch= --shared? --object-format= | w? | run.project
  clone | -qvnslj -b= -o= -j= --depth= --branch= --origin= --single-branch --no-single-branch --no-tags --tags
        --bare --mirror --no-checkout --quiet --verbose --progress --recurse-submodules? --recursive
        --shallow-submodules --shallow-since= --filter= --jobs= --sparse --dissociate --reject-shallow --local
        --no-hardlinks --also-filter-submodules --remote-submodules | t w? | !git_clone
  fetch pull | -afkpqtvnPjr4u -# -j= -s= -X= -S? --all --append --depth= --deepen= --unshallow --prune
        --prune-tags --tags --no-tags --force --quiet --verbose --progress --dry-run --rebase? --no-rebase --ff
        --ff-only --no-ff --no-edit --no-commit --commit --squash --stat --no-stat --autostash --no-autostash
        --recurse-submodules? --no-recurse-submodules --jobs= --set-upstream --shallow-since= --update-shallow
        --filter= --multiple --atomic --update-head-ok --no-verify --allow-unrelated-histories --strategy=
        --strategy-option= --keep | t* | run.project !git_fetch
  ls-remote | -htq --heads --tags --refs --quiet --exit-code --symref --sort= --get-url | t* | !git_fetch
  push | -fudnqv -o= -u --all --branches --tags --follow-tags --force --force-with-lease? --force-if-includes
        --delete --dry-run --mirror --prune --quiet --verbose --set-upstream --no-verify --porcelain --progress
        --atomic --no-follow-tags --push-option= --signed? --thin --no-thin | t* | run.project !git_push
  send-pack | | t* | git.force
  branch | -adDfmMcCrvqltiu -u= --all --list --delete --force --move --copy --remotes --verbose --quiet
        --show-current --set-upstream-to= --unset-upstream --track? --no-track --contains? --no-contains? --merged?
        --no-merged? --sort= --format= --points-at= --column? --no-column --color? --abbrev? --edit-description
        --ignore-case | t* | !git_branch
  tag | -adlfnsiv -# -m= -F=r -u= --annotate --delete --list --force --message= --file=r --sort= --format=
        --contains? --no-contains? --merged? --points-at= --sign --verify --column? --create-reflog --ignore-case
        --cleanup= | t* | !git_tag
  checkout switch | -qfbBdtlmpc -C= --quiet --force --detach --track? --no-track --orphan= --create
        --force-create= --merge --ours --theirs --discard-changes --guess --no-guess --progress --recurse-submodules
        --ignore-other-worktrees -b= -B= -c= --pathspec-from-file=r | t* | run.project !git_checkout
  restore | -qpSWm -s= --source= --staged --worktree --patch --quiet --ours --theirs --merge --ignore-unmerged
        --progress --recurse-submodules --pathspec-from-file=r | t* | !git_restore
  reset | -qpN --soft --mixed --hard --merge --keep --quiet --patch --no-refresh --refresh --intent-to-add
        --pathspec-from-file=r | t* | !git_reset
  clean | -dfinqxX -e= --dry-run --force --quiet --interactive --exclude= | t* | !git_clean
  rm | -frnq --force --dry-run --cached --recursive --quiet --ignore-unmatch --sparse | t* | !git_rm
  mv | -fknv --force --dry-run --verbose | t* | !git_paths
  merge rebase cherry-pick revert am | -qvninexeskmSp3 -m= -s= -X= -# --abort --continue --skip --quit --no-ff
        --ff --ff-only --no-commit --commit --squash --no-edit --quiet --verbose --stat --no-stat --message=
        --strategy= --strategy-option= --allow-unrelated-histories --onto= --root --autostash --no-autostash
        --autosquash --no-autosquash --keep-base --rebase-merges? --force-rebase --no-verify --mainline= --signoff
        --no-signoff --no-gpg-sign --3way --keep-cr --whitespace= --update-refs --committer-date-is-author-date
        --reset-author-date --keep-empty --allow-empty --no-keep-empty --reapply-cherry-picks --empty= --fork-point
        --no-fork-point --ignore-date --no-log --log? | t* | run.project !git_merge
  apply | -vqRN3 -p= -C= -U= --check --stat --numstat --summary --reverse --index --cached --3way --verbose
        --quiet --reject --whitespace= --ignore-whitespace --recount --apply --intent-to-add --exclude= --include=
        --ignore-space-change --allow-empty | r* | !git_apply
  stash | -uakpqSm -m= --include-untracked --all --keep-index --patch --quiet --staged --no-keep-index | t* |
        !git_stash
  config | -lz --list --get --get-all --get-regexp --get-urlmatch --global --local --system --worktree
        --show-origin --show-scope --name-only --null --type= --bool --int --path --default= --unset --unset-all
        --add --replace-all --includes --no-includes | t* | !git_config
  remote | -v --verbose -t= -m= -f --tags --no-tags --push --all --add --delete --auto -a -d -n --prune | t* |
        !git_remote
  submodule | -q --quiet -b= --init --recursive --remote --checkout --merge --rebase --force -f --depth=
        --jobs= -j= --no-fetch --cached --progress --single-branch --name= --recommend-shallow
        --no-recommend-shallow --branch= | t* | !git_submodule
  worktree | -fqvbBdn -b= -B= --force --detach --checkout --no-checkout --lock --quiet --track --no-track
        --guess-remote --porcelain --verbose --dry-run --expire= --orphan --reason= | t* | !git_worktree
  archive | -vl -# -o=w --format= --output=w --prefix= --list --verbose --worktree-attributes | t*
  notes bisect gc maintenance pack-refs repack fsck prune-packed lfs sparse-checkout rerere | -qfadlAvFk -m=
        --auto --aggressive --quiet --force --no-prune --full --strict --cone --no-cone --unreachable --dangling
        --no-dangling --lost-found --include= --exclude= --all --message= | t* | run.project !git_upkeep
  format-patch | -nNkspqv -# -o=w -v= --output-directory=w --stdout --numbered --no-numbered --cover-letter
        --signoff --subject-prefix= --no-stat --root --start-number= --zero-commit --thread? --base= | t*
  credential credential-cache credential-store | | t* | secret.keyring
  filter-branch filter-repo update-ref replace prune | -d -f -n -v --force --delete --dry-run --no-deref
        --stdin | t* | destroy.history
  daemon instaweb | | t* | net.listen
  send-email request-pull imap-send | | t* | message.sent
"""
SUBCOMMANDS = {"git": _GIT}
