"""The location of an engine: what counts as remote, and the arguments for ssh."""

from __future__ import annotations

import pytest

from runtime.docker.engine import DIAL, address, is_remote, ssh_command


@pytest.mark.parametrize(
    ("url", "far"),
    [
        ("unix:///var/run/docker.sock", False),
        ("tcp://localhost:2375", False),
        ("tcp://127.0.0.1:2375", False),
        ("tcp://[::1]:2375", False),
        ("http://127.0.0.1:2375", False),
        ("tcp://10.0.0.1:2375", True),
        ("https://engine.example:2376", True),
        ("tcp://localhost.example:2375", True),
        ("ssh://localhost", True),
    ],
)
def test_engine_is_remote_if_it_may_be_on_another_machine(url: str, far: bool) -> None:
    assert is_remote(url) is far


def test_setting_overrides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert address("unix:///mine") == "unix:///mine"
    assert address() == "tcp://10.0.0.1:2375"
    monkeypatch.delenv("DOCKER_HOST")
    assert address() == "unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ssh://host", ["--", "host"]),
        ("ssh://host:2222", ["-p", "2222", "--", "host"]),
        ("ssh://me@host", ["-l", "me", "--", "host"]),
        ("ssh://me@host:22/", ["-l", "me", "-p", "22", "--", "host"]),
    ],
)
def test_ssh_command_has_user_and_port(url: str, said: list[str]) -> None:
    assert ssh_command(url)[-len(said) - len(DIAL) :] == [*said, *DIAL]


@pytest.mark.parametrize("url", ["ssh://", "ssh:///x", "ssh://host/path", "ssh://me:secret@host", "ssh://host:port"])
def test_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not an address|[Pp]ort"):
        ssh_command(url)


def test_ssh_never_prompts_and_names_are_not_options() -> None:
    asked = ssh_command("ssh://-oProxyCommand=evil")
    assert asked.index("--") < asked.index("-oproxycommand=evil")
    assert "BatchMode=yes" in asked
