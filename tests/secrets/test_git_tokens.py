"""Which token a git host gets, and as whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.repository import Repository
from core.sandbox_types import GitCredential
from core.secrets import Redactor
from core.secrets.backends import FileBackend
from core.secrets.git_tokens import GitTokens, names_of, remedy
from core.secrets.vault import Vault, scope_of

OWN = ("git.example.org:8443=WORK_TOKEN",)
TOKEN, OTHER = "canary-token-1", "canary-token-2"


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path, FileBackend(tmp_path))


def tokens(vault: Vault, redactor: Redactor, **environ: str) -> GitTokens:
    names = names_of(OWN)
    return GitTokens(names, vault=vault, environ=environ, redactor=redactor, workspace="/w", conversation_id="c")


@pytest.mark.parametrize(
    ("host", "name", "user"),
    [
        ("github.com", "GITHUB_TOKEN", "x-access-token"),
        ("gitlab.com", "GITLAB_TOKEN", "oauth2"),
        ("bitbucket.org", "BITBUCKET_TOKEN", "x-token-auth"),
        ("git.example.org:8443", "WORK_TOKEN", "oauth2"),
    ],
)
def test_each_host_has_its_token_and_user(vault: Vault, host: str, name: str, user: str) -> None:
    redactor = Redactor([])
    found = tokens(vault, redactor, **{name: TOKEN})
    assert found.credential(host) == GitCredential(name, user, TOKEN)
    assert TOKEN not in redactor.redact_text(f"said {TOKEN}")
    vault.put(name, OTHER, scope=scope_of(git=True))
    assert found.credential(host).password == OTHER, "the vault comes before the environment"


def test_token_with_a_colon_is_user_and_password(vault: Vault) -> None:
    redactor = Redactor([])
    found = tokens(vault, redactor, BITBUCKET_TOKEN="me:app-password-1").credential("bitbucket.org")
    assert (found.user, found.password) == ("me", "app-password-1")
    assert "app-password-1" not in redactor.redact_text("app-password-1")


def test_no_token_is_no_password(vault: Vault) -> None:
    assert tokens(vault, Redactor([])).credential("github.com") == GitCredential("GITHUB_TOKEN")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("me/thing", "handloom secrets set GITHUB_TOKEN --git"),
        ("https://git.example.org:8443/a/b", "handloom secrets set WORK_TOKEN --git"),
        ("https://other.example.org/a/b", 'git_tokens = ["other.example.org=NAME_TOKEN"]'),
        ("git@github.com:me/thing", "ssh github.com"),
        ("/srv/thing", ""),
    ],
)
def test_what_is_missing_is_named(url: str, told: str) -> None:
    said = remedy(Repository.parse(url).place, names_of(OWN))
    assert told in said
    assert bool(said) is bool(told)
