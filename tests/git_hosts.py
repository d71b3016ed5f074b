"""Hosts of private git repositories on this machine: `git http-backend` behind TLS and a token, and an sshd.

The web server runs in a process of its own, as a host does, so that it answers while a test waits for a program.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from tests.runtime.certificates import Authority
from tests.sshd import Elsewhere


def bare_repository(folder: Path, readme: str = "hello\n") -> Path:
    """A repository with one commit on `main`, into which one can push."""
    work = folder.with_name(f"{folder.name}.work")
    for words in (
        ["init", "--quiet", "--initial-branch=main", str(work)],
        ["init", "--quiet", "--bare", "--initial-branch=main", str(folder)],
        ["-C", str(folder), "config", "http.receivepack", "true"],
    ):
        subprocess.run(["git", *words], check=True)
    (work / "README").write_text(readme)
    by = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (
        ["add", "README"],
        [*by, "commit", "--quiet", "-m", "first"],
        ["push", "--quiet", str(folder), "main"],
    ):
        subprocess.run(["git", "-C", str(work), *words], check=True)
    return folder


def branches(folder: Path) -> dict[str, str]:
    """The subject of the last commit of each branch."""
    words = ["git", "-C", str(folder), "for-each-ref", "--format=%(refname:short) %(subject)", "refs/heads"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


class WebHost:
    """Serves the repositories of a folder at https://localhost:PORT/ to who says USER:TOKEN."""

    def __init__(self, port: int, certificate: Path, log: Path) -> None:
        self.address = f"localhost:{port}"
        self.certificate = certificate
        """For SSL_CERT_FILE."""
        self._log = log

    def requests(self) -> list[str]:
        """`STATUS METHOD PATH` of each request so far."""
        return self._log.read_text().splitlines()


@contextmanager
def web_host(folder: Path, token: str, user: str = "oauth2") -> Iterator[WebHost]:
    """Start it with the repositories in `folder / "repositories"`."""
    authority = Authority(folder / "authority")
    signed = authority.sign("DNS:localhost")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "requests.log"
    log.touch()
    words = [str(folder / "repositories"), str(port), str(signed.certificate), str(signed.key), str(log), user]
    command = [sys.executable, "-P", "-m", "tests.git_hosts", *words]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{token}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        try:
            yield WebHost(port, authority.certificate, log)
        finally:
            process.stdin.close()


async def _backend(request: web.Request, folder: str) -> web.Response:
    """What git's own CGI program answers."""
    environ = {
        **os.environ,
        "GIT_PROJECT_ROOT": folder,
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query_string,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "REMOTE_USER": "somebody",
    }
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec("git", "http-backend", stdin=pipe, stdout=pipe, env=environ)
    output, _ = await program.communicate(await request.read())
    head, _, body = output.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(fields.pop("Status", "200").split()[0])
    return web.Response(status=status, headers=fields, body=body)


async def _serve(folder: str, port: str, certificate: str, key: str, log: str, user: str) -> None:
    loop = asyncio.get_running_loop()
    token = (await loop.run_in_executor(None, sys.stdin.readline)).strip()
    wanted = "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()

    async def answer(request: web.Request) -> web.Response:
        if request.path.startswith("/moved/"):
            response = web.Response(status=301, headers={"Location": f"https://localhost:{port}{request.path[6:]}"})
        elif request.path.startswith("/public/") or request.headers.get("Authorization") == wanted:
            response = await _backend(request, folder)
        else:
            response = web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        with open(log, "a") as file:
            file.write(f"{response.status} {request.method} {request.path}\n")
        return response

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, auto_decompress=False)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    await web.TCPSite(runner, "127.0.0.1", int(port), ssl_context=context).start()
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


@contextmanager
def ssh_host(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """An sshd on this machine, and an agent with the key for it: `HOST:PORT`, and the variables for Handloom.

    No file that ssh reads has the key.
    """
    host = Elsewhere()
    host.start()
    inner = host.bin.parent
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(inner / "agent")], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        environ = {"SSH_AUTH_SOCK": str(inner / "agent")}
        subprocess.run(["ssh-add", "-q", str(inner / "user")], check=True, env={**os.environ, **environ})
        shutil.move(inner / "user", folder / "key")
        (inner / "agent-client").write_text(
            f"IdentityFile none\nUserKnownHostsFile {inner}/known\nGlobalKnownHostsFile /dev/null\n"
            "StrictHostKeyChecking yes\n"
        )
        yield host.url.removeprefix("ssh://"), {**environ, "GIT_SSH_COMMAND": f"ssh -F {inner}/agent-client"}
    finally:
        agent.kill()
        agent.communicate()
        host.stop()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
