"""The tokens of git hosts: which secret a host has, and what git says with it.

A token is looked up by its name in the vault, then in the environment. Nothing here reaches a sandbox: what git in a
sandbox sends to such a host gets the token outside of it, see `runtime.isolation.git_forwarder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from core.sandbox_types import GitCredential, GitPlace
from core.secrets.redactor import Redactor
from core.secrets.vault import Vault

NAMES: Mapping[str, str] = MappingProxyType(
    {"github.com": "GITHUB_TOKEN", "gitlab.com": "GITLAB_TOKEN", "bitbucket.org": "BITBUCKET_TOKEN"}
)
_USERS: Mapping[str, str] = MappingProxyType({"github.com": "x-access-token", "bitbucket.org": "x-token-auth"})
_ANY_USER = "oauth2"
"""GitLab wants this user beside a token, and other hosts take any."""


def names_of(settings: Iterable[str]) -> dict[str, str]:
    """The names of tokens by host: the usual ones, and over them those of `sandbox.git_tokens`, as HOST=NAME."""
    own = (text.partition("=") for text in settings)
    return {**NAMES, **{host.strip().lower(): name.strip() for host, _, name in own}}


class GitTokens:
    """The tokens that one conversation may use."""

    def __init__(
        self,
        names: Mapping[str, str],
        *,
        vault: Vault,
        environ: Mapping[str, str],
        redactor: Redactor,
        workspace: str,
        conversation_id: str,
    ) -> None:
        self.names = names
        self._vault = vault
        self._environ = environ
        self._redactor = redactor
        self._workspace = workspace
        self._conversation_id = conversation_id

    def credential(self, host: str) -> GitCredential:
        """The user and the token for one of the hosts of `names`; the redactor knows it before it is returned.

        A token with a colon is USER:PASSWORD. Blocks. Raises ConfigurationError.
        """
        name = self.names[host]
        stored = self._vault.for_git(name, self._workspace, self._conversation_id)
        token = (self._environ.get(name, "") if stored is None else stored).strip()
        if not token:
            return GitCredential(name)
        user, has_user, password = token.partition(":")
        self._redactor.add([token, password])
        return (
            GitCredential(name, user, password) if has_user else GitCredential(name, _USERS.get(host, _ANY_USER), token)
        )


def remedy(place: GitPlace | None, names: Mapping[str, str]) -> str:
    """What to do if git cannot read a repository, for the user. `names` are those of tokens, by host."""
    if place is None:
        return ""
    if place.scheme == "ssh":
        return (
            f"If it is private, your ssh agent needs a key for it (ssh-add -l lists its keys). If the host is new, "
            f"accept its key once by yourself: ssh {place.host}."
        )
    if (name := names.get(place.address)) is None:
        return (
            f'If it is private, name its token in config.toml: [sandbox] git_tokens = ["{place.address}=NAME_TOKEN"], '
            "and store it with: handloom secrets set NAME_TOKEN --git."
        )
    return f"If it is private, store a token that may read it with: handloom secrets set {name} --git."
