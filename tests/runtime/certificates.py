"""Certificates for tests, made by the `openssl` command: an authority and certificates that it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: Path
    key: Path


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Authority:
    """Signs certificates of servers. Its files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate, self._key = folder / "ca.crt", folder / "ca.key"
        folder.mkdir()
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # Python 3.13 asks for it
            *("-subj", "/CN=tests", "-keyout", self._key, "-out", self.certificate),
        )

    def sign(self, name: str, *, days: int = 1) -> Signed:
        """A certificate for this name, such as `DNS:localhost` or `IP:127.0.0.1`; with negative days an expired one."""
        key, request, certificate = (self._folder / f"server.{end}" for end in ("key", "csr", "crt"))
        extensions = self._folder / "server.ext"
        extensions.write_text(f"subjectAltName={name}\nauthorityKeyIdentifier=keyid\n")
        _openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", "/CN=server", "-keyout", key, "-out", request),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", str(days), "-extfile", extensions, "-out", certificate),
        )
        return Signed(certificate, key)
