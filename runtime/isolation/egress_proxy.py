"""The egress proxy: the only network access of a sandbox without a network, on the host, with a list of allowed hosts.

`python -m runtime.isolation.egress_proxy --uds PATH --allow NAME ...` listens on a socket that the sandbox can see. For
every CONNECT and every plain request it checks the name against the list, resolves it, refuses every address that is
not public, and connects to exactly the address that it checked; redirects and later lookups are checked again. Allowed
names are `example.org`, `*.example.org` (all subdomains, not itself) or `*`; `:port` allows another port than 80 and
443; an address of a private network must be listed itself. `--deny GLOB RULE` refuses hosts in any case.

For each refused call it prints a line of JSON on standard output, and each line of JSON on standard input names further
allowed hosts, which replace those of the line before. It ends when standard input ends. The second half
(`egress_process`) starts, asks and ends this process.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from core.errors import RuntimeUnavailableError
from core.globs import matches
from core.interpreter import start_command
from core.sandbox_types import DeniedHosts
from core.secrets.variable_names import without_secret_variables
from core.status_messages import HOST_DENIED, HOST_PRIVATE

CHUNK_BYTES = 64 * 1024
HEAD_BYTES = 64 * 1024
"""Limit for a request's header."""
REASON_CHARS, HOST_CHARS, LINE_CHARS = 300, 300, 1000
"""Limits for the reason of a refusal for the client, and for host and rule for the process that started us."""
OPENED = "opened"
"""What the process prints when it allows the hosts of the last line."""
HEAD_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 15.0
PORTS = frozenset({80, 443})
MAX_CONNECTIONS = 200
PROXY_SOCKET = "way-out"
"""The proxy's socket, in the folder that the sandbox sees."""
ALLOWED_HOSTS = "HANDLOOM_ALLOWED_HOSTS"
"""In the environment of a server without isolation: the rules, separated by commas."""


PRIVATE = HOST_PRIVATE
OFFERED = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)+")
"""Hosts that the user may be asked about: names with a dot, without wildcards."""
_RULE = re.compile(
    r"(?:(?P<name>\*|(?:\*\.)?[a-z0-9_][a-z0-9_.-]*)|\[(?P<ipv6>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was refused."""

    why: Literal["refused", "unnamed", "denied", "private"]
    """`refused`: no rule allows the host; the user can be asked. `unnamed`: neither, but it is no plain name of the
    internet, so only the settings can allow it. `denied`: a rule denies it. `private`: its address is a local one.
    """
    host: str
    """HOST, or HOST:PORT if the port is not that of http or https."""
    rule: str = ""
    """The rule that denies."""


class RefusedError(Exception):
    """A call that is not allowed or not possible; the text is for the client."""

    def __init__(self, text: str, call: Call | None = None) -> None:
        """`call` is for the user: what a rule, or the lack of one, refused."""
        super().__init__(text)
        self.call = call


class DeniedError(RefusedError):
    """A call that a rule of the user denies."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An allowed host."""

    name: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Parse a rule. Raises ValueError."""
        found = _RULE.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is not a host: write example.org, *.example.org or example.org:8080")
        name = (found["name"] or found["ipv6"]).rstrip(".")
        return cls(name, int(found["port"]) if found["port"] else None)

    def allows(self, host: str, port: int) -> bool:
        if port not in (PORTS if self.port is None else (self.port,)):
            return False
        if self.name == "*":
            return True
        return host.endswith(self.name[1:]) if self.name.startswith("*.") else host == self.name


class EgressProxy:
    """Checks calls and connects them."""

    def __init__(
        self,
        rules: Iterable[Rule],
        denied: Iterable[DeniedHosts] = (),
        report: Callable[[Call], None] = lambda call: None,
    ) -> None:
        """`report` gets each call that a rule, or the lack of one, refused."""
        self._rules = tuple(rules)
        self.opened: tuple[Rule, ...] = ()
        """Hosts that the user has allowed since the start."""
        self._denied = tuple(DeniedHosts(_idna(one.glob), one.rule) for one in denied)
        self._report = report
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a sandbox to its end."""
        self._open += 1
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # one side is gone
        finally:
            self._open -= 1
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._open > MAX_CONNECTIONS:
                raise RefusedError("too many connections at once")
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            host, port, first = destination(head)
            server_reader, server_writer = await self.connect(host, port)
        except asyncio.LimitOverrunError:
            writer.write(refusal(431, "the header is too long"))
            return
        except RefusedError as error:
            if error.call is not None:
                self._report(error.call)
            writer.write(refusal(403, str(error)))
            await writer.drain()
            return
        if first:
            server_writer.write(first)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await relay((reader, writer), (server_reader, server_writer))

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an allowed host at a checked address. Raises RefusedError, OSError."""
        for address in await self.addresses(host, port):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(address, port)
        raise RefusedError(f"{host} does not answer")

    async def addresses(self, host: str, port: int, *, is_named: bool = False) -> list[str]:
        """Return the addresses of an allowed host. Raises RefusedError.

        A host that the user `named` for this use is allowed wherever it is, unless a rule denies it.
        """
        host = host.lower().strip("[]").rstrip(".")
        rules, address = (*self._rules, *self.opened), host if port in PORTS else f"{host}:{port}"
        self.refuse_denied(host, [host], port, is_named=is_named)
        if not is_named and not any(rule.allows(host, port) for rule in rules):
            text = f"{host}:{port} is not allowed; the user can add it to sandbox.allowed_hosts"
            is_offered = OFFERED.fullmatch(host) and not _is_numeric(host)
            raise RefusedError(text, Call("refused" if is_offered else "unnamed", address))
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise RefusedError(f"{host} was not found") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        self.refuse_denied(host, addresses, port, is_named=is_named)
        if not is_named and not is_allowed_address(rules, host, port) and not all(map(is_public, addresses)):
            # A single private address makes the name suspect.
            raise RefusedError(PRIVATE.format(host=host), Call("private", address))
        return addresses

    def refuse_denied(self, host: str, names: Sequence[str], port: int, *, is_named: bool = False) -> None:
        """Raise DeniedError if a rule denies one of the names of a host.

        While rules deny hosts, a numeric address is called only if the user allowed or `named` it, because it may
        belong to any host.
        """
        for denied in self._denied:
            if any(matches(denied.glob, name) for name in names):
                raise DeniedError(
                    HOST_DENIED.format(host=host, rule=denied.rule), Call("denied", host, str(denied.rule))
                )
        rules = (*self._rules, *self.opened)
        if self._denied and not is_named and _is_numeric(host) and not is_allowed_address(rules, host, port):
            rule = self._denied[0].rule
            text = f"{host} has no name, so it may be a host denied by the rule {rule}"
            raise DeniedError(text, Call("denied", host, rule))


async def relay(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter], server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Copy bytes in both directions until both sides have ended, then close both. A broken side has ended."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(client[0], server[1]))
            both.create_task(_copy(server[0], client[1]))
    finally:
        client[1].close()
        server[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()


def is_allowed_address(rules: Iterable[Rule], host: str, port: int) -> bool:
    """Return whether the user has allowed this address itself, wherever it is."""
    host = host.strip("[]")
    return any(rule.name == host and rule.allows(host, port) and _is_address(host) for rule in rules)


def is_public(address: str) -> bool:
    """Return whether an address is on the internet and not on a local network, in whatever form it is written."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not ip.is_multicast
    inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
    if ip in _NAT64:
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if inner is not None and not is_public(str(inner)):
        return False
    return ip in _NAT64 or ip.ipv4_mapped is not None or (ip in _UNICAST and ip.is_global)


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""All global unicast addresses of version 6. Python counts `::127.0.0.1`, `::ffff:0:127.0.0.1` and `fec0::1` as
global.
"""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_numeric(host: str) -> bool:
    """Return whether a host is an address in any form that needs no lookup, such as `0x7f000001`."""
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True


def _idna(glob: str) -> str:
    """Return a host glob in the form that proxies see."""
    with suppress(UnicodeError):
        return glob.encode("idna").decode().lower()
    return glob.lower()


def destination(head: bytes) -> tuple[str, int, bytes]:
    """Return host, port, and what to send first: nothing for CONNECT, the request without its host for a plain one."""
    line, _, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = url.hostname or "", url.port
    except ValueError as error:
        raise RefusedError("this is not a request to a proxy") from error
    if not host or (method != "CONNECT" and url.scheme != "http"):
        raise RefusedError("only CONNECT and http:// requests are served here")
    if method == "CONNECT":
        return host, port or 443, b""
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    fields = [field for field in rest.split(b"\r\n") if field and not _is_hop_by_hop(field)]
    # One request per connection: the next may be for another host and must be checked.
    lines = [f"{method} {path} {version}\r\nHost: {url.netloc.rpartition('@')[2]}".encode("ascii"), *fields]
    lines += [b"Connection: close", b"", b""]
    return host, port or 80, b"\r\n".join(lines)


def _is_hop_by_hop(field: bytes) -> bool:
    """Return whether a field is not forwarded; `Host` is rewritten, because it must match the request's target."""
    name = field.partition(b":")[0].strip().lower()
    return name in (b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive")


def refusal(status: int, why: str) -> bytes:
    """Return the answer to a refused call. The reason is also in the status line, because some clients show no body."""
    body = f"{why}\n".encode()
    reason = " ".join(why.encode("ascii", "replace").decode().split())[:REASON_CHARS]
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _print_call(call: Call) -> None:
    host, rule = ("".join(letter for letter in text if letter.isprintable()) for text in (call.host, call.rule))
    _print(json.dumps([call.why, host[:HOST_CHARS], rule[:LINE_CHARS]]))


async def _run(uds: Path, proxy: EgressProxy) -> None:
    loop = asyncio.get_running_loop()
    requests = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    server = await asyncio.start_unix_server(proxy.serve, uds, limit=HEAD_BYTES)
    _print("ready")
    while line := await requests.readline():
        proxy.opened = valid_rules(json.loads(line))
        _print(json.dumps(OPENED))
    server.close()


def valid_rules(hosts: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rules for hosts that the user allowed; anything else in their place allows nothing."""
    rules = []
    for host in hosts:
        with suppress(ValueError):
            rules.append(Rule.parse(host))
    return tuple(rules)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until standard input ends. Exit status 2: an invalid rule."""
    parser = argparse.ArgumentParser(
        prog="python -m runtime.isolation.egress_proxy", description="The egress proxy of a sandbox."
    )
    parser.add_argument("--uds", type=Path, required=True, help="listen on this Unix socket")
    parser.add_argument(
        "--deny",
        action="append",
        default=[],
        nargs=2,
        metavar=("GLOB", "RULE"),
        help="refuse hosts that match GLOB, and name RULE",
    )
    parser.add_argument("--allow", action="append", default=[], metavar="NAME[:PORT]", help="allow this host")
    options = parser.parse_args(argv)
    try:
        rules = [Rule.parse(text) for text in options.allow]
    except ValueError as error:
        sys.stderr.write(f"runtime.isolation.egress_proxy: {error}\n")
        return 2
    denied = [DeniedHosts(*words) for words in options.deny]
    asyncio.run(_run(options.uds, EgressProxy(rules, denied, _print_call)))
    return 0


START_S = 10.0
OPEN_S = 2.0
"""The process answers a line in milliseconds."""
MAX_REPORTED = 10
"""Different refused calls reported between two commands."""


class EgressProcess:
    """A running proxy process."""

    def __init__(self, requests: asyncio.StreamWriter, starting: asyncio.Task[None]) -> None:
        self._requests = requests
        self._starting = starting
        self._refused: dict[Call, None] = {}
        self._opened = asyncio.Event()

    async def started(self) -> None:
        """Return when it listens. Raises RuntimeUnavailableError."""
        await asyncio.shield(self._starting)

    async def listen(self, output: asyncio.StreamReader) -> None:
        """Read what the process prints from its start until it ends."""
        await self.started()
        while line := await output.readline():
            said = json.loads(line)
            if said == OPENED:
                self._opened.set()
            elif len(self._refused) < MAX_REPORTED:
                self._refused[Call(*said)] = None

    async def open_hosts(self, hosts: Iterable[str]) -> None:
        """Allow these hosts too, in place of those of the last call, and return when that is done."""
        self._opened.clear()
        with suppress(OSError, TimeoutError):  # it has ended; the next start of the sandbox gets them
            self._requests.write(json.dumps([*hosts]).encode() + b"\n")
            await self._requests.drain()
            async with asyncio.timeout(OPEN_S):
                await self._opened.wait()

    def take_refused(self) -> list[Call]:
        """Return the calls that were refused since the last call, each once."""
        refused, self._refused = list(self._refused), {}
        return refused


@asynccontextmanager
async def egress_process(
    path: Path, allowed_hosts: Iterable[str], denied: Iterable[DeniedHosts], user: tuple[int, int] | None
) -> AsyncIterator[EgressProcess]:
    """Run the proxy for as long as the context; `user` gets the socket. Raises RuntimeUnavailableError.

    Without allowed hosts nothing can be wrong with its rules, so its start is not waited for here; see `started`.
    """
    rules = [word for host in allowed_hosts for word in ("--allow", host)]
    waits = bool(rules)
    rules += [word for hosts in denied for word in ("--deny", hosts.glob, hosts.rule)]
    await asyncio.to_thread(path.unlink, missing_ok=True)
    proxy = await asyncio.create_subprocess_exec(
        *start_command("runtime.isolation.egress_proxy", "--uds", path.name, *rules),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=path.parent,  # the full path may be too long for a socket
        env=without_secret_variables(os.environ),
        start_new_session=True,
    )
    assert proxy.stdin is not None
    assert proxy.stdout is not None
    starting = asyncio.create_task(_started(proxy, path, user))
    opened = EgressProcess(proxy.stdin, starting)
    listening = asyncio.create_task(opened.listen(proxy.stdout))
    try:
        if waits:
            await opened.started()
        yield opened
    finally:
        proxy.stdin.close()  # this ends it
        await proxy.wait()
        await asyncio.gather(starting, listening, return_exceptions=True)  # `started` has raised what went wrong


async def _started(proxy: asyncio.subprocess.Process, path: Path, user: tuple[int, int] | None) -> None:
    await _ready(proxy)
    if user is not None:
        await asyncio.to_thread(os.chown, path, *user)


async def _ready(proxy: asyncio.subprocess.Process) -> None:
    assert proxy.stdout is not None
    assert proxy.stderr is not None
    reason = "it did not start in time"
    try:
        async with asyncio.timeout(START_S):
            if await proxy.stdout.readline():
                return
            reason = (await proxy.stderr.read()).decode("utf-8", "replace").strip()
    except TimeoutError:
        pass
    raise RuntimeUnavailableError(f"The sandbox has no network access: {reason}. Correct sandbox.allowed_hosts.")


if __name__ == "__main__":
    sys.exit(main())
