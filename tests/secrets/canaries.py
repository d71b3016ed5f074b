"""Sixty secrets that occur nowhere else, one in each place where a user has them, and the search for them everywhere.

The encodings are implemented here independently, so that a bug of the product is not repeated in the search.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"


def made(name: str, size: int = 36) -> str:
    """Letters and digits that look random and follow from the name."""
    digest = hashlib.shake_256(b"canary " + name.encode()).digest(size)
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest)


def _pem(name: str) -> str:
    body = base64.b64encode(hashlib.shake_256(name.encode()).digest(360)).decode()
    lines = [body[place : place + 64] for place in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])


def _jwt(name: str) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": made(name, 12), "admin": True}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, made(name, 43)])


PROVIDER = "OPENAI_API_KEY"
ENVIRONMENT: Mapping[str, str] = {
    PROVIDER: "sk-proj-" + made("openai"),
    "ANTHROPIC_API_KEY": "sk-ant-api03-" + made("anthropic"),
    "GEMINI_API_KEY": "AIza" + made("gemini", 35),
    "GITHUB_TOKEN": "ghp_" + made("github"),
    "GITLAB_TOKEN": "glpat-" + made("gitlab", 20),
    "AWS_SECRET_ACCESS_KEY": made("aws", 38) + "/+",
    "NPM_TOKEN": made("npm"),
    "SLACK_TOKEN": made("slack"),
    "DOCKER_PASSWORD": made("docker", 12),
    "SSH_PASSPHRASE": 'correct "horse" \\ ' + made("passphrase", 8),
    "SESSION_COOKIE": made("cookie"),
    "HANDLOOM_REMOTE_KEY": made("remote"),
    "SHOP_CREDENTIALS": made("credentials"),
    "SERVER_KEY": made("mcp header"),
    "NOTION_TOKEN": made("mcp environment"),
    "PROJECT_KEY": made("mcp of the project"),
    "OTHER_AGENT_KEY": made("another agent"),
    "CHEAP_KEY": "sk-" + made("cheap model", 40),
    "SESSION_API_KEY": made("session"),
    "HF_TOKEN": "hf_" + made("hugging face"),
    "GPG_PASSPHRASE": made("gpg", 20),
}
ADDRESSES: Mapping[str, str] = {
    "DATABASE_URL": made("database", 20),
    "MIRROR_URL": made("mirror", 20),
    "HTTPS_PROXY": made("proxy", 20),
    "PIP_INDEX_URL": made("index", 20),
}
"""Passwords in the address in a variable."""
KEPT: Mapping[tuple[str, str], str] = {
    ("EVERYWHERE_ONE", "everywhere"): made("everywhere"),
    ("EVERYWHERE_ODD", "everywhere"): 'ö /?&"\\ ' + made("odd", 16),
    ("EVERYWHERE_PEM", "everywhere"): _pem("everywhere"),
    ("EVERYWHERE_UNUSED", "everywhere"): made("unused"),
    ("FOLDER_ONE", "folder"): made("folder"),
    ("FOLDER_TWO", "folder"): made("folder two"),
    ("FOLDER_OTHER", "folder:/elsewhere"): made("other folder"),
    ("CONVERSATION_ONE", "conversation:none"): made("conversation"),
}
FOUND: Mapping[str, str] = {
    ".env": "ghp_" + made("dotenv"),
    "jwt": _jwt("jwt"),
    "remote": "gho_" + made("git remote"),
    "ssh": _pem("ssh"),
    "key file": made("key file"),
    "git credentials": made("git credentials", 30),
    "netrc": made("netrc", 30),
    "gh": "gho_" + made("gh"),
    "aws": made("aws credentials", 40),
    "npmrc": "npm_" + made("npmrc"),
    "pypirc": "pypi-AgE" + made("pypirc", 60),
    "docker login": "dckr_pat_" + made("docker login", 27),
    "kube": _jwt("kube"),
    "gnupg": _pem("gnupg"),
}
"""Secrets that Handloom was not told about, except for the key file: in files that commands print."""
CONFIGURED: Mapping[str, str] = {
    "docker.environment": made("docker environment"),
    "api_base": made("api base", 24),
    ".mcp.json env": made("literal environment"),
    ".mcp.json header": made("literal header"),
    "hook": made("hook", 24),
}
"""Secrets that appear literally in settings and in files of the project."""
MET: Mapping[str, str] = {
    "page": "ghp_" + made("page"),
    "form": "glpat-" + made("form", 20),
    "cookie": _jwt("page's cookie"),
    "download": "sk_live_" + made("download", 24),
    "mcp answer": "xoxb-" + made("mcp answer", 30),
    "mcp log": "AIza" + made("mcp log", 35),
    "delegate": "hf_" + made("delegate", 34),
}
"""Secrets that Handloom was not told about, from pages, servers and delegates."""
TYPED: Mapping[str, str] = {
    "prompt": "ghp_" + made("prompt"),
    "editor": "ghp_" + made("editor"),
    "title": "ghp_" + made("title"),
    "memory": "ghp_" + made("memory"),
    "shell": "ghp_" + made("shell"),
    "kept on the screen": made("kept on the screen"),
}
"""Text that the user types into the prompt, an editor, a list, a shell and a dialog."""
ALL: Mapping[str, str] = {
    **{f"environment {name}": value for name, value in ENVIRONMENT.items()},
    **{f"address {name}": value for name, value in ADDRESSES.items()},
    **{f"kept {name}": value for (name, _), value in KEPT.items()},
    **{f"file {name}": value for name, value in FOUND.items()},
    **{f"configured {name}": value for name, value in CONFIGURED.items()},
    **{f"met {name}": value for name, value in MET.items()},
    **{f"typed {name}": value for name, value in TYPED.items()},
}
assert len(ALL) == len(set(ALL.values())) == 65


def _encodings(value: str) -> Iterator[tuple[str, bytes]]:
    raw = value.encode()
    yield "raw", raw
    yield "hex", raw.hex().encode()
    yield "HEX", raw.hex().upper().encode()
    yield "url", quote(value, safe="").encode()
    yield "form", quote_plus(value).encode()
    yield "json", json.dumps(value)[1:-1].encode()
    for offset in range(3):
        coded = base64.b64encode(b"\xaa" * offset + raw + b"\xaa\xaa")
        inner = coded[-(-offset * 8 // 6) + (offset > 0) : (offset + len(raw)) * 8 // 6 - 1]
        yield f"base64 at {offset}", inner
        yield f"urlsafe base64 at {offset}", inner.replace(b"+", b"-").replace(b"/", b"_")


def _needles(values: Mapping[str, str]) -> Iterator[tuple[str, str, bytes]]:
    for slot, value in values.items():
        parts = [line for line in value.split("\n") if len(line) > 40 and "---" not in line] or [value]
        for part in parts:
            for encoding, needle in _encodings(part):
                yield slot, encoding, needle


NEEDLES = tuple(_needles(ALL))


@dataclass
class Search:
    """Hits so far; each is where, which slot, and in which encoding."""

    hits: set[tuple[str, str, str]] = field(default_factory=set)
    searched_bytes: int = 0
    also: dict[str, str] = field(default_factory=dict)
    """Secrets that came to be on the way, by their slots."""

    def look(self, where: str, data: bytes, without: Iterable[str] = ()) -> None:
        """Search bytes and everything packed in them; slots of `without` are allowed."""
        for inner in _unpacked(data):
            self.searched_bytes += len(inner)
            for slot, encoding, needle in (*NEEDLES, *_needles(self.also)):
                if needle in inner and slot not in without:
                    self.hits.add((where, slot, encoding))

    def look_in(self, folder: Path, without: Mapping[Path, Iterable[str]]) -> None:
        """Look through all files of a folder, and their names."""
        for path in sorted(folder.rglob("*")):
            self.look(f"name of {path}", path.name.encode())
            if path.is_file() and not path.is_symlink():
                self.look(str(path.relative_to(folder)), path.read_bytes(), without.get(path, ()))


def _unpacked(data: bytes) -> Iterator[bytes]:
    yield data
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            for name in packed.namelist():
                yield from _unpacked(packed.read(name))
    if data[:1] == b"\x78":
        with suppress(zlib.error):
            yield zlib.decompress(data)
