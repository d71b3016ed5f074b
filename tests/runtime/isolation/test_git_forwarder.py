"""Git in an isolated sandbox with private repositories by https and ssh: the token and the key stay outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.repository import Repository
from core.sandbox_types import Denials, DeniedHosts, GitAccess, GitCredential, GitPlace
from runtime.isolation.egress_proxy import EgressProxy, RefusedError
from runtime.isolation.git_forwarder import GitForwarder, rewritten
from runtime.local.local_runtime import LocalRuntime
from tests.git_hosts import WebHost, bare_repository, branches, ssh_host, web_host
from tests.runtime.isolation.confined import BUBBLEWRAP, own, run
from tests.secrets.canaries import made

pytestmark = pytest.mark.bubblewrap

TOKEN = made("git token")
AUTHOR = (
    "export GIT_AUTHOR_NAME=B GIT_COMMITTER_NAME=B GIT_AUTHOR_EMAIL=b@example.org GIT_COMMITTER_EMAIL=b@example.org"
)
WORK = (
    f"{AUTHOR}; cd thing && git checkout -q -b fix/it && echo new > new && git add new && git commit -qm second "
    "&& git push -q origin fix/it 2>&1"
)

LOOK = (
    "cat > thing/.git/hooks/pre-push <<'END'\n#!/bin/sh\n"
    "(cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'; env; git config --list; ls -R /tmp) > ../seen\n"
    "END\nchmod +x thing/.git/hooks/pre-push"
)
"""Has the next push note what every process of the sandbox can see meanwhile."""


def access(url: str, host: str = "", token: str = TOKEN, allowed: tuple[str, ...] = ()) -> GitAccess:
    """What git may reach for a conversation with this repository."""
    credential = GitCredential("WORK_TOKEN", "oauth2", token) if token else GitCredential("WORK_TOKEN")
    return GitAccess(lambda host: credential, (host,) if host else (), Repository.parse(url).place, allowed)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    own(folder)
    return folder


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A private repository, and beside it another one and a public one."""
    for name in ("team/thing.git", "team/other.git", "public/thing.git"):
        (tmp_path / "repositories" / name).parent.mkdir(parents=True, exist_ok=True)
        bare_repository(tmp_path / "repositories" / name)
    return tmp_path / "repositories" / "team" / "thing.git"


@pytest.fixture
def host(tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebHost]:
    with web_host(tmp_path, TOKEN) as host:
        monkeypatch.setenv("SSL_CERT_FILE", str(host.certificate))
        yield host


async def attempt(workspace: Path, git: GitAccess, *commands: str, denials: Denials | None = None) -> list[str]:
    """Run commands in a sandbox; the exit code and the output of each."""
    runtime = await asyncio.to_thread(LocalRuntime, workspace, isolation=BUBBLEWRAP)
    runtime.allow_git(git)
    if denials is not None:
        runtime.deny(lambda: denials)
    try:
        await runtime.start()
        done = [await run(runtime, f"export GIT_TERMINAL_PROMPT=0; {command}") for command in commands]
        return [f"{one.exit_code} {one.content}" for one in done]
    finally:
        await runtime.aclose()


def files(folder: Path) -> bytes:
    """The content of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


async def test_private_repository_is_cloned_and_pushed_by_https(workspace: Path, private: Path, host: WebHost) -> None:
    url = f"https://{host.address}/team/thing.git"
    cloned, _, pushed = await attempt(workspace, access(url, host.address), f"git clone -q {url}", LOOK, WORK)
    assert cloned.startswith("0 "), cloned
    assert pushed.startswith("0 "), pushed
    assert branches(private) == {"main": "first", "fix/it": "second"}
    seen = (workspace / "seen").read_text()
    assert "git-receive-pack" in seen or "git push" in seen or "remote-http" in seen, "it looked while git worked"
    assert TOKEN not in seen
    assert TOKEN.encode() not in files(workspace)
    assert f"url = {url}" in (workspace / "thing/.git/config").read_text(), "git on this machine knows the address, too"


async def test_private_repository_is_cloned_and_pushed_by_ssh(
    tmp_path: Path, workspace: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ssh_host(tmp_path) as (address, environ):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        url = f"ssh://{address}{private}"
        cloned, _, pushed, other, shell, agent = await attempt(
            workspace,
            access(url),
            f"git clone -q {url}",
            LOOK,
            WORK,
            f"git clone -q ssh://{address}{private.parent}/other.git 2>&1",
            f"$GIT_SSH_COMMAND {address.partition(':')[0]} 'id' 2>&1",
            'ls -d "$SSH_AUTH_SOCK"; ssh-add -l 2>&1',
        )
    assert cloned.startswith("0 "), cloned
    assert pushed.startswith("0 "), pushed
    assert branches(private) == {"main": "first", "fix/it": "second"}
    assert other.startswith("128 "), "only the repository of the conversation"
    assert "is not open for git; the user can add 127.0.0.1:" in other
    assert not shell.startswith("0 ")
    assert "uid=" not in shell
    assert not agent.startswith("0 "), "the socket of the agent is not in the sandbox"
    key = (tmp_path / "key").read_text().split("\n")[1]
    assert key not in files(workspace).decode(errors="replace")


async def test_token_is_used_for_the_repository_of_the_conversation_alone(
    workspace: Path, private: Path, host: WebHost
) -> None:
    url = f"https://{host.address}/team/thing"
    near = "$(git config --get-regexp 'url.*insteadof' | sed 's/^url.//; s,/localhost.*,,')"
    key = '"$(git config --get-regexp "http.*extraheader" | sed "s/^[^ ]* //")"'
    other, outside, page, stranger = await attempt(
        workspace,
        access(url, host.address),
        f"git clone -q {url.removesuffix('thing')}thing-other.git 2>&1",
        f"git clone -q https://{host.address}/team/other.git 2>&1",
        f"curl -s -H {key} {near}/{host.address}/team/thing/HEAD",
        f'curl -s "{near}/{host.address}/team/thing/info/refs?service=git-upload-pack"',
    )
    assert "localhost:" in other
    assert "is not allowed" in other, "it begins like the repository, but is another one"
    assert outside.startswith("128 ")
    assert "only git is served here" in page
    assert "only git of this sandbox is served here" in stranger
    assert host.requests() == []


async def test_hosts_that_the_user_opened_show_all_repositories(workspace: Path, private: Path, host: WebHost) -> None:
    git = access("/none", host.address, allowed=(host.address,))
    (cloned,) = await attempt(workspace, git, f"git clone -q https://{host.address}/team/other.git 2>&1")
    assert cloned.startswith("0 "), cloned


@pytest.mark.parametrize(
    ("token", "path", "why"),
    [
        ("", "team/thing.git", "the user can store one: handloom secrets set WORK_TOKEN --git"),
        ("expired-token", "team/thing.git", "refuses the token WORK_TOKEN for this repository"),
        (TOKEN, "moved/team/thing.git", "says that the repository has moved"),
    ],
)
async def test_git_says_what_is_missing(
    workspace: Path, private: Path, host: WebHost, token: str, path: str, why: str
) -> None:
    url = f"https://{host.address}/{path}"
    (cloned,) = await attempt(workspace, access(url, host.address, token), f"git clone {url} 2>&1")
    assert cloned.startswith("128 "), cloned
    assert why in " ".join(cloned.split())


async def test_public_repository_needs_no_token(workspace: Path, private: Path, host: WebHost) -> None:
    url = f"https://{host.address}/public/thing.git"
    (cloned,) = await attempt(workspace, access(url, host.address, ""), f"git clone -q {url} 2>&1")
    assert cloned.startswith("0 "), cloned


async def test_certificate_that_is_not_trusted_gets_no_token(
    workspace: Path, private: Path, host: WebHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    url = f"https://{host.address}/team/thing.git"
    (cloned,) = await attempt(workspace, access(url, host.address), f"git clone {url} 2>&1")
    assert "the certificate of localhost is not trusted" in " ".join(cloned.split())
    assert host.requests() == []


async def test_rules_that_deny_the_host_hold_for_git(workspace: Path, private: Path, host: WebHost) -> None:
    url = f"https://{host.address}/team/thing.git"
    denials = Denials(hosts=(DeniedHosts("localhost", "net(localhost)"),))
    (cloned,) = await attempt(workspace, access(url, host.address), f"git clone {url} 2>&1", denials=denials)
    assert "localhost is denied by the rule net(localhost)" in " ".join(cloned.split())
    assert host.requests() == []


async def test_large_push_goes_in_parts(workspace: Path, private: Path, host: WebHost) -> None:
    url = f"https://{host.address}/team/thing.git"
    large = WORK.replace("echo new > new", "head -c 20000000 /dev/urandom > new")
    _, pushed = await attempt(workspace, access(url, host.address), f"git clone -q {url}", large)
    assert pushed.startswith("0 "), pushed
    assert branches(private)["fix/it"] == "second"


async def test_without_isolation_only_a_stored_token_is_used(
    workspace: Path, private: Path, host: WebHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://{host.address}/team/thing.git"
    for token, expected in (("", "128 "), (TOKEN, "0 ")):
        runtime = LocalRuntime(workspace)
        runtime.allow_git(access(url, host.address, token))
        try:
            await runtime.start()
            done = await run(runtime, f"export GIT_TERMINAL_PROMPT=0; git clone -q {url} 2>&1; env")
            status = await run(runtime, "test -e thing")
        finally:
            await runtime.aclose()
        assert (status.exit_code == 0) is (expected == "0 "), done.content
        assert TOKEN not in done.content


def test_hosts_go_to_the_forwarder_only_if_the_user_opened_them() -> None:
    hosts = ("github.com", "git.example.org:8443")
    repository = Repository.parse("me/thing").place

    def credential(host: str) -> GitCredential:
        raise ConfigurationError(host)

    assert rewritten(GitAccess(credential, hosts)) == []
    assert rewritten(GitAccess(credential, hosts, repository)) == ["github.com/me/thing"]
    assert rewritten(GitAccess(credential, hosts, allowed_hosts=("*.example.org:8443",))) == ["git.example.org:8443/"]
    assert rewritten(GitAccess(credential, hosts, allowed_hosts=("*",))) == ["github.com/"]


async def test_second_request_hidden_in_a_field_gets_no_token(tmp_path: Path) -> None:
    """A host that ends lines at a single line feed would take the rest for a request of its own, with the token."""
    asked: list[str] = []

    async def ask(host: str) -> GitCredential:
        asked.append(host)
        raise RefusedError("asked")

    place = GitPlace.of("https", "git.example", 443, "/team/private.git")
    hosts = ["git.example"]
    forwarder = GitForwarder("k", own=place, hosts=hosts, opened=(), proxy=EgressProxy((), ()), ask=ask)
    server = await asyncio.start_unix_server(forwarder.serve, tmp_path / "s")
    first = "GET /git.example/team/private.git/info/refs?service=git-upload-pack HTTP/1.1\r\nX-Handloom-Git: k\r\n"
    answers = []
    for field in ("Accept: a", "Accept: a\n\nGET /user HTTP/1.1\nX: y", "Accept: a\rX: y"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(f"{first}{field}\r\n\r\n".encode())
        answers.append((await reader.read()).partition(b"\r\n\r\n")[2])
        writer.close()
    server.close()
    assert [b"only git is served here" in answer for answer in answers] == [False, True, True]
    assert asked == ["git.example"], "for the first alone"
