"""Secrets are stored by name and scope, are private, and are listed without values."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.secrets.backends import PAUSE_S, FileBackend, KeyringBackend, best_backend, wrong_mode
from core.secrets.vault import INDEX, VALUES, Vault, scope_of
from core.settings.config import load
from tests.program import Handloom

VALUE, OTHER, THIRD = "canary-value-1", "canary-value-2", "canary-value-3"


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "home", FileBackend(tmp_path / "home"))


class TestVault:
    def test_most_specific_scope_is_used(self, vault: Vault) -> None:
        vault.put("TOKEN", VALUE, description="For all.")
        vault.put("TOKEN", OTHER, scope=scope_of("/work"))
        vault.put("TOKEN", THIRD, scope=scope_of(conversation_id="c1"))
        text = "curl $TOKEN"
        assert vault.named_in(text, "/elsewhere", "c9") == {"TOKEN": VALUE}
        assert vault.named_in(text, "/work/deep", "c9") == {"TOKEN": OTHER}
        assert vault.named_in(text, "/workshop", "c9") == {"TOKEN": VALUE}
        assert vault.named_in(text, "/work", "c1") == {"TOKEN": THIRD}
        assert sorted(vault.values()) == [VALUE, OTHER, THIRD]

    def test_token_of_git_is_for_no_command(self, vault: Vault) -> None:
        vault.put("TOKEN", VALUE, scope=scope_of(git=True))
        assert vault.named_in("curl $TOKEN", "/w", "c") == {}
        assert vault.descriptions("/w", "c") == {}
        assert vault.values() == [VALUE]
        vault.put("TOKEN", OTHER)
        assert vault.for_git("TOKEN", "/w", "c") == VALUE
        assert vault.remove("TOKEN", scope_of(git=True))
        assert vault.for_git("TOKEN", "/w", "c") == OTHER
        assert vault.for_git("NONE", "/w", "c") is None

    def test_agents_get_names_and_descriptions(self, vault: Vault) -> None:
        vault.put("TOKEN", VALUE, description=" For\nthe shop. ")
        assert vault.descriptions("/w", "c") == {"TOKEN": "For the shop."}

    def test_only_named_secrets_are_read(self, vault: Vault) -> None:
        vault.put("TOKEN", VALUE)
        assert vault.named_in("echo TOKEN", "/w", "c") == {}
        assert vault.all()[0].used_at == ""
        vault.named_in("echo $TOKEN", "/w", "c")
        assert vault.all()[0].used_at

    def test_value_file_is_private(self, vault: Vault, tmp_path: Path) -> None:
        vault.put("TOKEN", VALUE)
        holding = [path for path in tmp_path.rglob("*") if path.is_file() and VALUE in path.read_text()]
        assert [path.name for path in holding] == [VALUES]
        assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("secret*"))
        assert vault.remove("TOKEN")
        assert not vault.remove("TOKEN")
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and VALUE in path.read_text()]

    def test_file_that_others_can_read_is_refused(self, vault: Vault, tmp_path: Path) -> None:
        vault.put("TOKEN", VALUE)
        (tmp_path / "home" / VALUES).chmod(0o644)
        assert "chmod 600" in wrong_mode(tmp_path / "home" / VALUES)
        with pytest.raises(ConfigurationError, match="chmod 600"):
            vault.named_in("$TOKEN", "/w", "c")

    @pytest.mark.parametrize(("name", "value"), [("PATH", VALUE), ("A-B", VALUE), ("A", "short"), ("A", "x\0" * 9)])
    def test_unusable_secret_is_not_stored(self, vault: Vault, name: str, value: str) -> None:
        with pytest.raises(ConfigurationError) as refused:
            vault.put(name, value)
        assert value not in str(refused.value)
        assert vault.all() == []

    @pytest.mark.parametrize("text", ["[]", '{"secrets": [1]}', '{"secrets": [{"x": 1}]}', "{", VALUE])
    def test_broken_list_error_does_not_quote_it(self, vault: Vault, tmp_path: Path, text: str) -> None:
        vault.put("TOKEN", OTHER)
        (tmp_path / "home" / INDEX).write_text(text)
        with pytest.raises(ConfigurationError) as refused:
            vault.all()
        assert VALUE not in str(refused.value)
        assert vault.descriptions("/", "c") == {}

    def test_concurrent_processes_lose_nothing(self, tmp_path: Path) -> None:
        program = (
            "import sys; from pathlib import Path; from core.secrets.vault import Vault\n"
            "for n in range(10): Vault(Path(sys.argv[1])).put(f'{sys.argv[2]}{n}', 'canary-value')"
        )
        both = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in "AB"]
        assert [process.wait(60) for process in both] == [0, 0]
        assert len(Vault(tmp_path).all()) == 20


class Keyring:
    """A keyring as the package `keyring` offers it."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False
        self.asked = 0

    def get_password(self, service: str, name: str) -> str | None:
        self.asked += 1
        if self.is_locked:
            raise RuntimeError(f"cannot give {VALUE}")
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


class TestKeyring:
    def test_values_go_to_the_keyring_and_to_no_file(self, tmp_path: Path) -> None:
        keyring = Keyring()
        vault = Vault(tmp_path, KeyringBackend(keyring, "test"))
        vault.put("TOKEN", VALUE)
        assert keyring.kept == {("handloom", "everywhere/TOKEN"): VALUE}
        assert vault.named_in("$TOKEN", "/w", "c") == {"TOKEN": VALUE}
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and VALUE in path.read_text()]
        vault.remove("TOKEN")
        assert keyring.kept == {}

    def test_keyring_errors_are_not_quoted(self, tmp_path: Path) -> None:
        keyring = Keyring()
        vault = Vault(tmp_path, KeyringBackend(keyring, "test"))
        vault.put("TOKEN", VALUE)
        keyring.is_locked = True
        with pytest.raises(ConfigurationError, match="RuntimeError") as refused:
            vault.named_in("$TOKEN", "/w", "c")
        assert VALUE not in str(refused.value)

    def test_file_is_used_without_a_keyring(self, tmp_path: Path) -> None:
        FileBackend(tmp_path).put("everywhere/A", VALUE)
        found = best_backend(tmp_path)
        assert found.place == str(tmp_path / VALUES)
        assert found.get("everywhere/A") == VALUE

    def test_failed_keyring_is_retried_after_a_pause(self) -> None:
        keyring, now = Keyring(), [100.0]
        keyring.is_locked = True
        backend = KeyringBackend(keyring, "test", lambda: now[0])
        for _ in range(3):
            with pytest.raises(ConfigurationError, match="--file"):
                backend.get("everywhere/A")
        assert keyring.asked == 1
        keyring.is_locked = False
        now[0] += PAUSE_S
        assert backend.get("everywhere/A") is None


class TestCommandLine:
    def test_value_is_never_an_argument_or_output(self, tmp_path: Path) -> None:
        handloom = Handloom(tmp_path)
        kept = handloom("secrets", "set", "TOKEN", "--stdin", "--description", "For the shop.", stdin=VALUE + "\n")
        assert kept.status == 0, kept.err
        assert str(handloom.home / VALUES) in kept.err
        listed = handloom("secrets", "list")
        assert "TOKEN  For the shop." in listed.out
        (one,) = [json.loads(line) for line in handloom("secrets", "list", "--json").lines]
        assert (one["name"], one["scope"]) == ("TOKEN", "everywhere")
        assert VALUE not in kept.out + kept.err + listed.out + listed.err + json.dumps(one)
        assert Vault(handloom.home).named_in("$TOKEN", "/", "") == {"TOKEN": VALUE}
        assert handloom("secrets", "remove", "TOKEN").status == 0
        gone = handloom("secrets", "remove", "TOKEN")
        assert (gone.status, "no secret" in gone.err) == (2, True)

    def test_value_is_typed_without_echo(self, tmp_path: Path) -> None:
        handloom = Handloom(tmp_path)
        ours, theirs = pty.openpty()
        with handloom.start("secrets", "set", "TOKEN", stdin=theirs, stderr=theirs) as process:
            os.close(theirs)
            seen = b""
            while b"not shown" not in seen:
                seen += os.read(ours, 1000)
            os.write(ours, VALUE.encode() + b"\n")
            with suppress(OSError):  # the other end is closed
                while True:
                    seen += os.read(ours, 1000)
            assert process.wait(30) == 0
        os.close(ours)
        assert VALUE.encode() not in seen
        assert Vault(handloom.home).values() == [VALUE]

    def test_keys_move_out_of_the_settings(self, tmp_path: Path) -> None:
        handloom = Handloom(tmp_path)
        handloom.home.mkdir(parents=True, exist_ok=True)
        config = handloom.home / "config.toml"
        config.write_text(f'# mine\n[models.fast]\nmodel = "openai/x"\napi_key = "{VALUE}"\n')
        refused = handloom("secrets", "allow", "a JSON web token")
        assert "handloom secrets adopt" in refused.err
        assert VALUE not in refused.err
        adopted = handloom("secrets", "adopt")
        assert adopted.status == 0, adopted.err
        assert VALUE not in adopted.err + adopted.out + config.read_text()
        assert load(handloom.home, {}).models["fast"].key_env == "MODELS_FAST_API_KEY"
        assert "# mine" in config.read_text()
        assert Vault(handloom.home).value_of("MODELS_FAST_API_KEY") == VALUE
