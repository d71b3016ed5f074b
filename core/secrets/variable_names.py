"""Which variables of an environment hold a secret: by their names, and by a password in an address. Pure.

Loads next to nothing, because the sandbox's launcher uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

MIN_LENGTH = 8
"""Shorter values are never patterns: redacting `18` or `true` would destroy ordinary text."""
_SECRET_NAME = re.compile(
    r"(^|_)(API_?KEYS?|ACCESS_KEY(_ID)?|(SECRET_|PRIVATE_)?KEY(_BASE)?|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE"
    r"|(AUTH|ACCESS|SECRET)(KEY|TOKEN)|(CREDENTIALS?|(API|SECRET|PRIVATE)_KEY|ACCOUNT_KEY)(_JSON|_PEM|_B(ASE)?64)?"
    r"|PAT|COOKIE|AUTH|AUTH_CONFIG|WEBHOOK(_URL)?|CONNECTION_STRING"
    r"|(SSH|DB|SQL|MYSQL|PG|USER|ADMIN|ROOT|MAIL|SMTP|LDAP|FTP|REDIS)?(PASS|PW))(_\d+)?$"
    r"|PASSWORD$|APIKEY$|[A-Z0-9]_PWD$|^(DB|SQL|MYSQL|PG|USER|ADMIN|ROOT)PWD$",
    re.IGNORECASE,
)
"""`PWD` and `OLDPWD` are folders and `SSH_ASKPASS` is a program, so the short words count as whole words only."""
_PROXY_NAME = re.compile(r"(^|_)PROXY$", re.IGNORECASE)
"""Programs in the sandbox need the address with its password to get out. The password is redacted all the same."""
_USER_INFO = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://([^\s/?#\"'<>]{1,1000})@")
"""What stands between `://` and the last `@` before the path."""
_TOKEN_CHARS = 20
"""A user name without a password that has so many characters is a token, as in `https://TOKEN@github.com`."""


def is_secret_name(name: str) -> bool:
    """Whether an environment variable's name says that it holds a key, a token or a password."""
    return _SECRET_NAME.search(name) is not None


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is withheld from the sandbox: by its name, or by a password in its value's address."""
    if is_secret_name(name):
        return True
    return not _PROXY_NAME.search(name) and next(passwords_in(value), None) is not None


def passwords_in(text: str) -> Iterator[str]:
    """The passwords of the addresses in a text, as they are written and decoded, however short."""
    if "://" not in text:
        return
    for found in _USER_INFO.finditer(text):
        user, has_password, password = found[1].partition(":")
        written = password if has_password else user if len(user) >= _TOKEN_CHARS else ""
        yield from dict.fromkeys(filter(None, (written, unquote(written))))


def from_environment(environ: Mapping[str, str]) -> list[str]:
    """The values of the variables whose names say that they are secret, and the passwords in addresses.

    Left out is what is too short to be redacted.
    """
    found = {value: None for name, value in environ.items() if is_secret_name(name)}
    for value in environ.values():
        found.update(dict.fromkeys(passwords_in(value)))
    return [value for value in found if len(value) >= MIN_LENGTH]


def without_secret_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a sandbox: commands can print it, and the model sees the output."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}
