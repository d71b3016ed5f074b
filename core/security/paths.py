"""Classification of paths: the workspace, the home folder, the system, files with secrets, persistence.

Pure and lexical: nothing is looked up but what `is_link` tells, so a link in the workspace may lead elsewhere; the
sandbox protects against that. Every home folder is written `~`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import filter as filter_names
from fnmatch import fnmatchcase

from core.autorun_paths import NAMES, is_autorun


class Region(StrEnum):
    """The region of a path."""

    INSIDE = "inside"
    TEMPORARY = "temporary"
    HOME = "home"
    SYSTEM = "system"
    DEVICE = "device"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"


_HOME = re.compile(r"^(?:/root|/home/[^/]+|/Users/[^/]+|/var/root)(?=/|$)")
_SYSTEM = ("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/run", "/sbin", "/srv", "/sys",
           "/usr", "/var", "/System", "/Library", "/Applications", "/private/etc", "/snap")  # fmt: skip
_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp", "/dev/shm")  # noqa: S108  # told apart, not used
_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout",
                     "/dev/stderr", "/dev/tty", "/dev/fd")  # fmt: skip

_SECRETS: tuple[tuple[str, str], ...] = (
    (r"^/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|maps|cmdline)$", "secret.process"),
    (r"^/dev/(?:mem|kmem|port|sd[a-z]|nvme|vd[a-z]|xvd|disk|mapper)", "secret.process"),
    (r"^~/\.(?:ssh|gnupg|aws|azure|kube|password-store|config/gcloud|config/gh|docker/config\.json|config/hub)(?:/|$)",
     "secret.read"),
    (r"^~/\.(?:netrc|npmrc|pypirc|git-credentials|pgpass|my\.cnf|vault-token|boto|s3cfg|bash_history|zsh_history"
     r"|python_history|psql_history|mysql_history|cargo/credentials(?:\.toml)?|gem/credentials|m2/settings\.xml"
     r"|terraform\.d/.*|config/rclone/.*|config/op/.*|local/share/keyrings(?:/.*)?|mozilla/.*|config/google-chrome/.*"
     r"|config/chromium/.*|config/handloom/.*|local/share/handloom/.*)$", "secret.read"),
    (r"^~/Library/(?:Keychains|Cookies)(?:/|$)", "secret.read"),
    (r"^/etc/(?:shadow|gshadow|sudoers|ssh/ssh_host_.*|krb5\.keytab|security/.*|ssl/private(?:/.*)?)(?:$|[-.])",
     "secret.read"),
    (r"^/(?:var/)?run/(?:secrets|user)(?:/|$)|^/var/(?:spool/)?mail(?:/|$)|^/tmp/krb5cc", "secret.read"),
    (r"(?:^|/)\.env(?:$|rc$|\.(?!(?:example|sample|template|dist|defaults?|test)$)[^/]*$)", "secret.read"),
    (r"(?:^|/)(?:id_(?:rsa|dsa|ecdsa|ed25519)|[^/]+\.(?:pem|key|p12|pfx|keystore|jks|kdbx|ppk))$", "secret.read"),
    (r"(?:^|/)(?:credentials|secrets?)(?:\.(?:json|ya?ml|toml|ini|txt|env|enc))?$", "secret.read"),
    (r"(?:^|/)(?:service[-_]?account[^/]*\.json|terraform\.tfstate(?:\.backup)?|\.git-credentials|\.netrc|\.pgpass"
     r"|\.htpasswd|wp-config\.php|master\.key|kubeconfig(?:\.ya?ml)?|\.pypirc|\.npmrc|\.kube/config|\.docker/config\.json"
     r"|[^/]+\.tfvars|[^/]*(?:prod|production|staging)\.env)$", "secret.read"),
)  # fmt: skip
_SAMPLES = (
    "~/.ssh/id_rsa", "~/.ssh/id_ed25519", "~/.ssh/config", "~/.aws/credentials", "~/.netrc", "~/.npmrc",
    "~/.kube/config",
    "~/.bash_history", "~/.docker/config.json", "/etc/shadow", "/proc/self/environ", "/proc/1/environ",
    "~/.gnupg/secring.gpg", "~/.git-credentials",
)  # fmt: skip
"""Files that a path with wildcards is matched with."""
_PERSISTENCE: tuple[tuple[str, str], ...] = (
    (r"^~/\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zprofile|zshenv|zlogin|kshrc"
     r"|cshrc|tcshrc|inputrc|xinitrc|xprofile|xsession|config/fish/.*|config/starship\.toml|pam_environment)$",
     "persist.shell"),
    (r"^/etc/(?:profile(?:\.d/.*)?|bash\.bashrc|bashrc|zsh/.*|environment|ld\.so\.preload|rc\.local)$",
     "persist.shell"),
    (r"^~/\.ssh(?:/|$)|^/etc/ssh/|(?:^|/)authorized_keys2?$|^/etc/(?:sudoers|pam\.d)", "persist.ssh"),
    (r"^/etc/(?:cron|anacrontab|systemd|init|rc\d?\.d|xdg/autostart)|^/var/spool/(?:cron|at)|^/lib/systemd"
     r"|^/usr/lib/systemd|^~/\.config/(?:systemd|autostart)(?:/|$)|^~/Library/Launch(?:Agents|Daemons)"
     r"|^/Library/Launch", "persist.cron"),
    (r"(?:^|/)\.(?:git|husky|githooks|vscode|handloom|openhands|claude|cursor)(?:/|$)"
     r"|(?:^|/)(?:\.envrc|\.gitmodules|\.gitattributes|\.pre-commit-config\.yaml|\.lefthook\.ya?ml)$"
     r"|(?:^|/)(?:sitecustomize|usercustomize)\.py$|/site-packages/[^/]+\.pth$"
     r"|^/(?:dev/shm|tmp|var/tmp)/handloom-(?!demo-|replay-)", "persist.hook"),
    (r"(?:^|/)\.github/(?:workflows|actions)(?:/|$)|(?:^|/)(?:\.gitlab-ci\.ya?ml|\.travis\.yml|azure-pipelines\.ya?ml"
     r"|Jenkinsfile|\.drone\.yml|bitbucket-pipelines\.yml|appveyor\.yml|\.circleci/.*|\.woodpecker/.*)$", "persist.ci"),
    (r"^~/\.(?:gitconfig|config/git/.*|npmrc|yarnrc|pip/.*|config/pip/.*|condarc|gemrc|cargo/config(?:\.toml)?|vimrc"
     r"|vim/.*|config/nvim/.*|emacs(?:\.d/.*)?|tmux\.conf|gdbinit|pythonrc|ipython/.*|jupyter/.*|docker/.*|kube/.*"
     r"|aws/.*|config/handloom/.*|local/share/handloom/.*|config/Code/.*|curlrc|wgetrc|screenrc|local/bin/.*)$|^~/bin/",
     "persist.config"),
)  # fmt: skip


_VISIBLE = tuple(name for name in NAMES if not name.startswith("."))
"""Names that a glob without a dot may match; a glob with one is never understood as what is copied."""


def _compiled(rows: tuple[tuple[str, str], ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in rows)  # as the file system may


_SECRET_PATTERNS, _PERSISTENCE_PATTERNS = _compiled(_SECRETS), _compiled(_PERSISTENCE)


@dataclass(frozen=True, slots=True)
class Places:
    """Paths as seen from one workspace."""

    workspace: str
    """Absolute."""
    is_link: Callable[[str], bool] = lambda _: False
    """Whether a folder is or may be reached through a link, so that `..` leads from it to somewhere else."""

    @property
    def home(self) -> str:
        """The home folder that contains the workspace, or `~`."""
        found = _HOME.match(self.workspace)
        return found[0] if found else "~"

    def resolve(self, path: str, cwd: str | None) -> str | None:
        """The path without `.` and `..`, absolute or relative to `~`; None if `cwd` is unknown."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        elif path.startswith("~"):
            return posixpath.normpath("~/../" + path[1:])
        if path.startswith("~"):
            if ".." in path:
                return posixpath.normpath("/home/user/" + path[1:])
            return "~" + posixpath.normpath("/" + path[1:].lstrip("/")).rstrip("/")
        if not path.startswith("/"):
            if cwd is None:
                return None
            path = f"{cwd}/{path}"
            if cwd.startswith("~"):
                return self.resolve(path, None)
        return "/" + posixpath.normpath(path).lstrip("/")

    def place(self, path: str) -> Region:
        """The region of a resolved path."""
        if _within(path, self.workspace):
            return Region.INSIDE
        if _within(path, *_TEMPORARY):
            return Region.TEMPORARY
        if path.startswith("~") or _HOME.match(path):
            return Region.HOME
        if path == "/dev" or path.startswith("/dev/"):
            return Region.INSIDE if _within(path, *_HARMLESS_DEVICES) else Region.DEVICE
        if path == "/" or _within(path, *_SYSTEM):
            return Region.SYSTEM
        return Region.OUTSIDE if path.startswith("/") else Region.UNKNOWN

    def is_above(self, path: str, inner: str = "") -> bool:
        """Whether this folder is or contains the workspace, or `inner`."""
        return _within(inner or self.workspace, path)

    def symbolic(self, path: str) -> str:
        """The path with its home folder written `~`."""
        return _HOME.sub("~", path)

    def secret(self, path: str) -> str:
        """The rule about secrets that applies to a path, or an empty string."""
        path = self.symbolic(path)
        if any(char in path for char in "*?[") and any(fnmatchcase(sample, path) for sample in _SAMPLES):
            return "secret.read"
        return next((rule for pattern, rule in _SECRET_PATTERNS if pattern.search(path)), "")

    def persistence(self, path: str) -> str:
        """The rule about persistence that applies to a path, or an empty string."""
        path = self.symbolic(path)
        name = path.rpartition("/")[2]
        is_aimed = re.search(r"[*?\[]", name) and not re.fullmatch(r"\*?(?:\.\w+)?", name)  # `*` and `*.json` are not
        by_name = "persist.hook" if is_autorun(path) or (is_aimed and filter_names(_VISIBLE, name)) else ""
        return next((rule for pattern, rule in _PERSISTENCE_PATTERNS if pattern.search(path)), by_name)


def _within(path: str, *folders: str) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
