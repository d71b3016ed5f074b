"""Which addresses of repositories are allowed, and how they are stored."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.repository import Repository, folder_of
from core.sandbox_types import GitPlace


@pytest.mark.parametrize(
    ("text", "repository", "name"),
    [
        ("https://example.org/a/b.git", Repository("https://example.org/a/b.git"), "b"),
        (" http://example.org/a/b/ ", Repository("http://example.org/a/b/"), "b"),
        ("ssh://git@example.org:22/a/b.git#main", Repository("ssh://git@example.org:22/a/b.git", "main"), "b"),
        ("git@example.org:b.git#fix/it-1", Repository("git@example.org:b.git", "fix/it-1"), "b"),
        ("file:///srv/b.git#v1.0", Repository("file:///srv/b.git", "v1.0"), "b"),
        ("me/thing", Repository("https://github.com/me/thing.git"), "thing"),
        ("me/thing.git#work", Repository("https://github.com/me/thing.git", "work"), "thing"),
        ("https://Example.org:443/a/b", Repository("https://example.org/a/b"), "b"),
        ("/srv/with space's/b", Repository("/srv/with space's/b"), "b"),
    ],
)
def test_repository_address_and_branch_are_parsed(text: str, repository: Repository, name: str) -> None:
    read = Repository.parse(text)
    assert (read, read.name) == (repository, name)
    assert Repository.parse(str(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        *("", "#main", "b", "./b", "../b", "~/b", "C:\\b", "-u/x", "--upload-pack=touch /tmp/x", "/", "/..", "/a/.git"),
        *(
            "ext::sh -c touch% /tmp/x",
            "ftp://example.org/b",
            "git://example.org/b",
            "HTTPS:b",
            "https:///b",
            "file://b",
        ),
        *("https://example.org", "ssh://-oProxyCommand=x/b", "ssh://-x@example.org/b", "https://[/b", "/a/-b"),
        *(
            "git@-oProxyCommand=x:b",
            "git@example.org:-b",
            "root@example.org:b",
            "https://example.org/a\nb",
            "/a/\x1b[31mb",
        ),
        *("/a/b#", "/a/b#-b", "/a/b#a b", "/a/b#a..b", "/a/b#a:b", "/a/b#b.lock", "/a/b#a@{1}", "/a/b#.b", "/a/b#b/"),
    ],
)
def test_addresses_and_branches_that_look_like_options_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"https://HOST/PATH"):
        Repository.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hunter2hunter2@example.org/b.git",
        "https://hunter2hunter2@example.org/b.git",
        "https://example.org/b.git?token=hunter2hunter2",
        "ssh://git:hunter2hunter2@example.org/b.git",
    ],
)
def test_address_with_password_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(UsageError, match="password or a token") as caught:
        Repository.parse(text)
    assert "hunter2" not in str(caught.value)


def test_short_name_is_at_the_host_of_the_settings() -> None:
    assert Repository.parse("me/thing", "git.example.org:8443").url == "https://git.example.org:8443/me/thing.git"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("https://example.org/a/b.git", GitPlace("https", "example.org", 443, "/a/b")),
        ("https://example.org:8443/a/b/", GitPlace("https", "example.org", 8443, "/a/b")),
        ("ssh://me@Example.org:2222/a%20b.git", GitPlace("ssh", "example.org", 2222, "/a b", "me")),
        ("ssh://example.org/~me/b", GitPlace("ssh", "example.org", 22, "~me/b")),
        ("git@example.org:a/b.git", GitPlace("ssh", "example.org", 22, "a/b", "git")),
        ("http://example.org/a/b", None),
        ("/srv/b", None),
    ],
)
def test_place_is_what_git_asks_for(text: str, place: GitPlace | None) -> None:
    assert Repository.parse(text).place == place


def test_work_happens_in_the_folder_of_the_repository() -> None:
    assert folder_of(Repository("/srv/b.git"), "/workspace") == "/workspace/b"
    assert folder_of(None, "/workspace") == "/workspace"
