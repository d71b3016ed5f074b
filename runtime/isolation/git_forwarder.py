"""Git's way out of a sandbox: it adds the user's token, or runs the user's ssh, outside; neither enters the sandbox.

`python -m runtime.isolation.git_forwarder --uds PATH ...` listens on a socket that the sandbox can see. It serves git
alone: `/HOST/PATH/info/refs?service=...` and `/HOST/PATH/git-upload-pack` or `git-receive-pack`, which it sends on by
TLS, and one line of JSON for the same services by ssh. The token is used for the repository of the conversation, and
for those on hosts that the user opened to the agent. Others get no token, and only if the sandbox may call their host.
Redirects are refused, so a token goes to the host that it is for. Every request has the key of the sandbox, because
without isolation other users of the machine could reach the port.

The process has no token: for each request it asks the process that started it, by a line on standard output, and gets
the answer as a line on standard input. The second part (`git_forwarder`) is for that process. What ssh prints is sent
in frames, see `runtime.isolation.git_ssh`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import secrets
import shlex
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError, RuntimeUnavailableError
from core.interpreter import start_command
from core.sandbox_types import HTTPS_PORT, SSH_PORT, DeniedHosts, GitAccess, GitCredential, GitPlace
from core.secrets.variable_names import without_secret_variables
from runtime.isolation.egress_proxy import (
    CHUNK_BYTES,
    CONNECT_TIMEOUT_S,
    HEAD_BYTES,
    HEAD_TIMEOUT_S,
    PORTS,
    EgressProxy,
    RefusedError,
    Rule,
    refusal,
)
from runtime.isolation.git_ssh import ERRORS, EXIT, OUTPUT, frame

GIT_SOCKET = "git"
"""The forwarder's socket, in the folder that the sandbox sees."""
KEY_HEADER = "X-Handloom-Git"
START_S = 10.0
SERVICES = ("git-upload-pack", "git-receive-pack")
_TARGET = re.compile(
    r"/(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?::(?P<port>[0-9]{1,5}))?(?P<path>/[^\s?#]+?)"
    r"(?:/info/refs\?service=(?P<asked>git-upload-pack|git-receive-pack)|/(?P<done>git-upload-pack|git-receive-pack))"
)
_BODY = frozenset(
    {"cache-control", "content-encoding", "content-length", "content-type", "pragma", "transfer-encoding"}
)
_SENT = _BODY | {"accept", "accept-encoding", "accept-language", "expect", "git-protocol", "user-agent"}
"""The fields of a request that the host gets, besides those that are made here."""
_RETURNED = _BODY | {"date", "expires"}
_SSH_OPTIONS = ("BatchMode=yes", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "PermitLocalCommand=no")
_SSH_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
MISSING = (
    "{host} does not show this repository without a token; the user can store one: handloom secrets set {name} --git"
)
REFUSED = "{host} refuses the token {name} for this repository: it has expired, or may not do this"
MOVED = "{host} says that the repository has moved; use its new address"
NOT_ALLOWED = "{host} is not open for git; the user can add {rule} to sandbox.allowed_hosts"


class Asking:
    """Asks the process that started this one for tokens, one question at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(self) -> None:
        """Read the answers until standard input ends."""
        reader = asyncio.StreamReader(limit=HEAD_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._answers.put_nowait(line)

    async def credential(self, host: str) -> GitCredential:
        """Return the token of a host. Raises RefusedError."""
        async with self._turn:
            _print(host)
            answer = json.loads(await self._answers.get())
        if "error" in answer:
            raise RefusedError(answer["error"])
        return GitCredential(**answer)


class GitForwarder:
    """Serves the connections of one sandbox."""

    def __init__(
        self,
        key: str,
        *,
        own: GitPlace | None,
        hosts: Iterable[str],
        opened: Iterable[Rule],
        proxy: EgressProxy,
        ask: Callable[[str], Any],
    ) -> None:
        """`own` is the conversation's repository, `hosts` have tokens, `opened` are for the agent.

        `proxy` says what the sandbox may call without a token.
        """
        self._key = key
        self._own = own
        self._hosts = frozenset(hosts)
        self._opened = tuple(opened)
        self._proxy = proxy
        self._ask = ask

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                line = await reader.readline()
                head = b"" if line.startswith(b"{") else line + await reader.readuntil(b"\r\n\r\n")
            await (self._serve_https(head, reader, writer) if head else self._serve_ssh(line, reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError):
            pass  # one side is gone, or does not speak as git does
        finally:
            writer.close()

    def _is_open(self, place: GitPlace) -> bool:
        return any(rule.allows(place.host, place.port) for rule in self._opened)

    # -- https -------------------------------------------------------------------------------------------------------

    async def _serve_https(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            place, sent = self._request(head)
            credential = await self._credential(place)
            far = await self._connect(place, is_named=credential is not None)
        except RefusedError as error:
            writer.write(refusal(403, str(error)))
            await writer.drain()
            return
        if credential is not None and credential.password:
            said = base64.b64encode(f"{credential.user}:{credential.password}".encode()).decode()
            sent.append(f"Authorization: Basic {said}")
        far[1].write("\r\n".join([*sent, "", ""]).encode("latin-1"))
        sending = asyncio.create_task(_copy(reader, far[1]))
        try:
            await self._answer(far[0], writer, place, credential)
        finally:
            sending.cancel()
            far[1].close()

    def _request(self, head: bytes) -> tuple[GitPlace, list[str]]:
        """Return the repository of a request, and the lines to send to its host. Raises RefusedError."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        target = rest.rpartition(" ")[0]
        found = _TARGET.fullmatch(target)
        fields = [
            (name.strip().lower(), value.strip()) for name, mark, value in (x.partition(":") for x in lines) if mark
        ]
        if not secrets.compare_digest(dict(fields).get(KEY_HEADER.lower(), "").encode("latin-1"), self._key.encode()):
            raise RefusedError("only git of this sandbox is served here")
        has_controls = any(char < " " for line in (first, *lines) for char in line)  # some hosts end a line at them
        if has_controls or found is None or method != ("GET" if found["asked"] else "POST"):
            raise RefusedError("only git is served here")
        if ".." in found["path"].split("/"):
            raise RefusedError("only git is served here")
        place = GitPlace.of("https", found["host"], int(found["port"] or HTTPS_PORT), found["path"])
        path = target[target.index("/", 1) :]
        kept = [f"{name}: {value}" for name, value in fields if name in _SENT]
        return place, [f"{method} {path} HTTP/1.1", f"Host: {place.address}", "Connection: close", *kept]

    async def _credential(self, place: GitPlace) -> GitCredential | None:
        """Return the credential for a repository, with or without a token; None if the user has not opened it."""
        if place.address in self._hosts and (place == self._own or self._is_open(place)):
            credential: GitCredential = await self._ask(place.address)
            return credential
        return None

    async def _connect(self, place: GitPlace, *, is_named: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect by TLS; the user `named` the host, so it may be in a private network. Raises RefusedError."""
        for address in await self._proxy.addresses(place.host, place.port, is_named=is_named):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(
                        address,
                        place.port,
                        ssl=ssl.create_default_context(),
                        server_hostname=place.host,
                        limit=HEAD_BYTES,
                    )
            except ssl.SSLCertVerificationError as error:
                raise RefusedError(
                    f"the certificate of {place.host} is not trusted: {error.verify_message}; the user can name its "
                    "authority in SSL_CERT_FILE"
                ) from error
            except (OSError, TimeoutError):
                continue
        raise RefusedError(f"{place.host} does not answer")

    async def _answer(
        self,
        far: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        place: GitPlace,
        credential: GitCredential | None,
    ) -> None:
        """Return the host's answer without what concerns the connection or the login."""
        while True:
            first, *lines = (await far.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(first.split(" ", 2)[1])
            if status >= 200:
                break
            writer.write(f"{first}\r\n\r\n".encode("latin-1"))
        if status in (401, 403, 404) or 300 <= status < 400:
            writer.write(refusal(403, _why(status, place, credential)))
        else:
            kept = [line for line in lines if line.partition(":")[0].strip().lower() in _RETURNED]
            writer.write("\r\n".join([first, *kept, "Connection: close", "", ""]).encode("latin-1"))
            while data := await far.read(CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
        await writer.drain()

    # -- ssh ---------------------------------------------------------------------------------------------------------

    async def _serve_ssh(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            words, protocol = await self._ssh(json.loads(line))
        except (RefusedError, KeyError, TypeError) as error:
            why = str(error) if isinstance(error, RefusedError) else "this is not a request of git"
            writer.write(frame(ERRORS, f"handloom: {why}\n".encode()) + frame(EXIT, b"\x80"))
            await writer.drain()
            return
        program = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **({"GIT_PROTOCOL": protocol} if protocol else {})},
        )
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        sending = asyncio.create_task(_copy(reader, program.stdin, until_end=True))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy_frames(OUTPUT, program.stdout, writer))
                both.create_task(_copy_frames(ERRORS, program.stderr, writer))
            writer.write(frame(EXIT, bytes([await program.wait() & 0xFF])))
            await writer.drain()
        except* OSError:
            pass  # git is gone
        finally:
            sending.cancel()
            with suppress(ProcessLookupError):
                program.kill()
            await program.wait()

    async def _ssh(self, asked: dict[str, Any]) -> tuple[list[str], str]:
        """Return the command that carries out what git asks of ssh, and git's protocol. Raises RefusedError."""
        user, host, port, path = str(asked["user"]), str(asked["host"]), int(asked["port"]), str(asked["path"])
        service, protocol = str(asked["service"]), str(asked["protocol"])
        if not secrets.compare_digest(str(asked["key"]).encode(), self._key.encode()):
            raise RefusedError("only git of this sandbox is served here")
        if service not in SERVICES or not re.fullmatch(r"(version=[0-9])?", protocol):
            raise RefusedError("only git-upload-pack and git-receive-pack are served here")
        if not _SSH_WORD.fullmatch(host) or not re.fullmatch(r"[\w.-]*", user) or user.startswith("-"):
            raise RefusedError("this is not the address of a repository")
        if path.startswith("-") or not path.isprintable():
            raise RefusedError("this is not the path of a repository")
        place = GitPlace.of("ssh", host, port, path, user)
        if place != self._own:
            if not self._is_open(place):
                raise RefusedError(NOT_ALLOWED.format(host=host, rule=f"{host}:{port}"))
            await self._proxy.addresses(place.host, place.port)
        else:
            self._proxy.refuse_denied(place.host, [place.host], place.port, is_named=True)
        options = [word for option in _SSH_OPTIONS for word in ("-o", option)]
        options += ["-o", "SendEnv=GIT_PROTOCOL"] if protocol else []
        options += ["-p", str(port)] if port != SSH_PORT else []
        program = shlex.split(os.environ.get("GIT_SSH_COMMAND", "")) or ["ssh"]
        where = f"{user}@{host}" if user else host
        return [*program, *options, "-T", "--", where, f"{service} {shlex.quote(path)}"], protocol


def _why(status: int, place: GitPlace, credential: GitCredential | None) -> str:
    """Say why a host did not give what git asked for."""
    if 300 <= status < 400:
        return MOVED.format(host=place.address)
    if credential is None:
        return NOT_ALLOWED.format(host=f"{place.address}{place.path}", rule=place.address) + " to use your token there"
    return (REFUSED if credential.password else MISSING).format(host=place.address, name=credential.name)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, until_end: bool = False) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if until_end:
            writer.close()


async def _copy_frames(channel: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(frame(channel, data))
        await writer.drain()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _run(options: argparse.Namespace) -> None:
    asking = Asking()
    denied = [DeniedHosts(*words) for words in options.deny]
    place = GitPlace(**json.loads(options.own)) if options.own else None
    key = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    forwarder = GitForwarder(
        key.strip(),
        own=place,
        hosts=options.host,
        opened=map(Rule.parse, options.open),
        proxy=EgressProxy(map(Rule.parse, options.allow), denied),
        ask=asking.credential,
    )
    server = await asyncio.start_unix_server(forwarder.serve, options.uds, limit=HEAD_BYTES)
    _print("ready")
    await asking.listen()
    server.close()


# -- in Handloom's process -------------------------------------------------------------------------------------------


class GitProcess:
    """A running forwarder."""

    def __init__(self, access: GitAccess, rewritten: Sequence[str]) -> None:
        self._access = access
        self._rewritten = rewritten
        self.key = secrets.token_hex(32)

    def variables(self, port: int, ssh: str, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with which git in the sandbox uses the forwarder at this port of its loopback.

        `ssh` is the command in place of ssh; an empty one changes nothing for ssh.
        """
        near = f"http://127.0.0.1:{port}/"
        settings = [(f"http.{near}.extraHeader", f"{KEY_HEADER}: {self.key}"), (f"http.{near}.proxy", "")]
        settings += [(f"url.{near}{place}.insteadOf", f"https://{place}") for place in self._rewritten]
        given = environ.get("GIT_CONFIG_COUNT", "")
        first = int(given) if given.isdigit() else 0
        variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
        for number, (name, value) in enumerate(settings, first):
            variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        if ssh and uses_ssh(self._access):
            variables |= {"GIT_SSH_COMMAND": f"{ssh} {self.key}", "GIT_SSH_VARIANT": "ssh"}
        return variables

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of the process until it ends."""
        while line := await reader.readline():
            writer.write(json.dumps(await asyncio.to_thread(self._answer, line.decode().strip())).encode() + b"\n")
            with suppress(OSError):
                await writer.drain()

    def _answer(self, host: str) -> dict[str, str]:
        try:
            return asdict(self._access.credential(host))
        except ConfigurationError as error:
            return {"error": str(error)}


def uses_ssh(access: GitAccess) -> bool:
    """Whether the sandbox may use git by ssh: for its own repository, or because the user opened a port for it."""
    is_own = access.repository is not None and access.repository.scheme == "ssh"
    return is_own or any(Rule.parse(text).port not in (None, *PORTS) for text in access.allowed_hosts)


def rewritten(access: GitAccess) -> list[str]:
    """Return the beginnings of addresses that go to the forwarder: HOST/ or HOST/PATH."""
    rules = [Rule.parse(text) for text in access.allowed_hosts]
    found = [f"{host}/" for host in access.hosts if any(rule.allows(*_host_and_port(host)) for rule in rules)]
    own = access.repository
    if own is not None and own.scheme == "https" and own.address in access.hosts:
        found.append(f"{own.address}{own.path}")
    return found


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    return host, int(port or HTTPS_PORT)


@asynccontextmanager
async def git_forwarder(
    path: Path,
    access: GitAccess | None,
    *,
    allowed_hosts: Iterable[str],
    denied: Iterable[DeniedHosts],
    user: tuple[int, int] | None,
    is_closed: bool = True,
) -> AsyncIterator[GitProcess | None]:
    """Run the forwarder for as long as the context, if git needs it; `user` gets the socket.

    If the sandbox is not closed, git's own logins work, so only hosts with a stored token are served. Raises
    RuntimeUnavailableError.
    """
    places = [] if access is None else await asyncio.to_thread(_places, access, is_closed=is_closed)
    if access is None or not (places or (is_closed and uses_ssh(access))):
        yield None
        return
    words = [word for host in access.hosts for word in ("--host", host)]
    words += [word for rule in access.allowed_hosts for word in ("--open", rule)]
    words += [word for rule in allowed_hosts for word in ("--allow", rule)]
    words += [word for hosts in denied for word in ("--deny", hosts.glob, hosts.rule)]
    words += ["--own", json.dumps(asdict(access.repository))] if access.repository else []
    await asyncio.to_thread(path.unlink, missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        *start_command("runtime.isolation.git_forwarder", "--uds", path.name, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=path.parent,  # the full path may be too long for a socket
        env=without_secret_variables(os.environ),
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    opened = GitProcess(access, places)
    answering: asyncio.Task[None] | None = None
    try:
        process.stdin.write(f"{opened.key}\n".encode())
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                if not await process.stdout.readline():
                    raise RuntimeUnavailableError("Git's forwarder did not start. Correct sandbox.allowed_hosts.")
        if user is not None:
            await asyncio.to_thread(os.chown, path, *user)
        answering = asyncio.create_task(opened.answer(process.stdout, process.stdin))
        yield opened
    finally:
        process.stdin.close()  # this ends it
        await process.wait()
        if answering is not None:
            await answering


def _places(access: GitAccess, *, is_closed: bool) -> list[str]:
    found = rewritten(access)
    return found if is_closed else [place for place in found if access.credential(place.partition("/")[0]).password]


def main(argv: Sequence[str]) -> int:
    """Serve until standard input ends. Exit status 2: an invalid rule."""
    parser = argparse.ArgumentParser(prog="python -m runtime.isolation.git_forwarder")
    parser.add_argument("--uds", type=Path, required=True, help="listen on this Unix socket")
    parser.add_argument("--host", action="append", default=[], help="a host that has a token")
    parser.add_argument("--own", help="the repository of the conversation, as JSON")
    parser.add_argument("--open", action="append", default=[], help="hosts with all of their repositories")
    parser.add_argument("--allow", action="append", default=[], help="hosts that the sandbox may call")
    parser.add_argument("--deny", action="append", default=[], nargs=2, metavar=("GLOB", "RULE"))
    try:
        asyncio.run(_run(parser.parse_args(argv)))
    except ValueError as error:
        sys.stderr.write(f"runtime.isolation.git_forwarder: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
