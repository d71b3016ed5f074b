"""A secret for one command in a container is only in that command's environment.

Looked for in what the engine knows, in the environment and the arguments of every process, in every file that the
container has written, and in the image that is made of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdOutputObservation, CmdRunAction
from core.secrets import Redactor
from core.secrets.backends import FileBackend
from core.secrets.command_secrets import SecretInjection
from core.secrets.vault import Vault
from tests.containers import engine
from tests.fleets import Contained
from tests.runtime.isolation.confined import repository
from tests.secrets.canaries import made

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

VALUE = made("lent to a container")
DIGEST = hashlib.sha256(VALUE.encode()).hexdigest()
SHOW = 'printf %s "$TOKEN" | sha256sum'
LOOK = """
for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do cat "$file" 2>/dev/null; done | tr '\\0' '\\n'
set; export -p; history; cat ~/.bash_history 2>/dev/null; ls /dev/shm
find / -xdev -type f -newer /proc/1 -not -path '/proc/*' -exec cat {} + 2>/dev/null
"""


class Sandbox:
    """A container, and the client that passes secrets to it."""

    def __init__(self, runtime: Contained, secrets: SecretInjection) -> None:
        self.runtime, self._secrets = runtime, secrets

    async def run(self, command: str) -> str:
        action = CmdRunAction(command=command)
        done = await self._secrets.around(action, lambda: self.runtime.execute(action, 1, lambda frame: None))
        assert isinstance(done, CmdOutputObservation), done
        return done.content

    @property
    def name(self) -> str:
        assert self.runtime.container_name is not None
        return self.runtime.container_name


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    workspace = repository(tmp_path / "workspace")
    vault = Vault(tmp_path / "vault", FileBackend(tmp_path / "vault"))
    vault.put("TOKEN", VALUE)
    runtime = Contained(workspace)
    await runtime.start()
    try:
        yield Sandbox(runtime, SecretInjection(vault, Redactor(), str(workspace), "c"))
    finally:
        await runtime.aclose()


async def test_secret_reaches_only_the_command_that_names_it(sandbox: Sandbox) -> None:
    assert DIGEST in await sandbox.run(SHOW)
    assert VALUE not in await sandbox.run("env; set; export -p; tr '\\0' '\\n' </proc/1/environ")
    assert await sandbox.run("bash -c 'echo ${#TOK''EN}'") == "0"


async def test_secret_is_in_no_engine_data_process_or_file(sandbox: Sandbox) -> None:
    holding = f"{SHOW}; sleep 600 >/dev/null 2>&1 </dev/null &"  # a process that was lent it, and stays
    assert DIGEST in await sandbox.run(f"(unset TOKEN; {SHOW}); {SHOW}")
    seen = await sandbox.run(LOOK)
    assert "PATH=" in seen, "it looks at something"
    assert VALUE not in seen
    await asyncio.to_thread(_look_from_outside, sandbox.name)
    await sandbox.run(holding)
    in_the_background = await sandbox.run(
        "cat /proc/$(pgrep -n sleep)/environ | tr '\\0' '\\n' | grep -c ^TOKEN= || true"
    )
    assert in_the_background == "1", "the search finds what is there"


def _look_from_outside(name: str) -> None:
    """The engine's data about the container, its changed files, its log, and an image made from it."""
    with engine() as client:
        said = [client.api.inspect_container(name), client.api.top(name), client.api.diff(name)]
        assert VALUE not in json.dumps(said, default=str)
        assert VALUE.encode() not in client.api.logs(name)
        made = client.api.commit(name, repository="handloom-canary", tag=name[-12:])["Id"]
        try:
            image: Any = [client.api.inspect_image(made), client.api.history(made)]
            assert VALUE not in json.dumps(image)
            newest = client.api.inspect_image(made)["RootFS"]["Layers"][-1]
            for layer, data in _layers(client.images.get(made)):
                if layer == newest:
                    assert VALUE.encode() not in data
                    break
            else:
                raise AssertionError("the image has no layer of the container's")
        finally:
            client.api.remove_image(made)


def _layers(image: Any) -> Iterator[tuple[str, bytes]]:
    """Digest and bytes of each layer of an image that is small enough for it."""
    saved = io.BytesIO(b"".join(image.save()))
    with tarfile.open(fileobj=saved) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                data = file.read()
                yield f"sha256:{hashlib.sha256(data).hexdigest()}", data
