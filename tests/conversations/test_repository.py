"""Which addresses of repositories are allowed, and how they are stored."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.repository import Repository, folder_of


@pytest.mark.parametrize(
    ("text", "repository", "name"),
    [
        ("https://example.org/a/b.git", Repository("https://example.org/a/b.git"), "b"),
        (" http://example.org/a/b/ ", Repository("http://example.org/a/b/"), "b"),
        ("ssh://git@example.org:22/a/b.git#main", Repository("ssh://git@example.org:22/a/b.git", "main"), "b"),
        ("git@example.org:b.git#fix/it-1", Repository("git@example.org:b.git", "fix/it-1"), "b"),
        ("file:///srv/b.git#v1.0", Repository("file:///srv/b.git", "v1.0"), "b"),
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


def test_work_happens_in_the_folder_of_the_repository() -> None:
    assert folder_of(Repository("/srv/b.git"), "/workspace") == "/workspace/b"
    assert folder_of(None, "/workspace") == "/workspace"
