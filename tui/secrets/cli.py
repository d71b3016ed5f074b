"""`handloom secrets`: store, list and delete secrets, move API keys out of the settings, allow a kind of value.

A value is read from the terminal without echo, from a variable or from standard input, never from an argument, and it
is never printed.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from dataclasses import asdict

from core.environment import home_folder
from core.errors import ConfigurationError, ExitStatus
from core.secrets.backends import FileAndKeyring
from core.secrets.command_secrets import MAX_BYTES
from core.secrets.vault import Secret, Vault, scope_of, wrong_with
from core.settings.config import load, save_settings
from core.settings.key_migration import adopt
from tui.cli.output import can_ask, notice, say
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

WIDTH = 400


def secrets(options: argparse.Namespace) -> int:
    """Carry out one step. Raises ConfigurationError, whose text contains no value."""
    vault = Vault(home_folder(os.environ))
    match options.step:
        case "set":
            _set(vault, options)
        case "list":
            for secret in vault.all():
                say(json.dumps(asdict(secret)) if options.json else sanitize_line(line_of(secret), WIDTH))
        case "remove":
            if not vault.remove(options.name, _scope(options)):
                raise ConfigurationError(f"There is no secret {options.name!a}. List them with: handloom secrets list")
            notice(_("The secret was removed."))
        case "adopt":
            _adopt(vault)
        case _:
            _allow(options.kind)
    return ExitStatus.FINISHED


def line_of(secret: Secret) -> str:
    """One line about a secret."""
    used = secret.used_at[:10] if secret.used_at else _("never")
    return _("{name}  {description}  ({scope}; last used: {used})").format(
        name=secret.name, description=secret.description, scope=secret.scope, used=used
    )


def _set(vault: Vault, options: argparse.Namespace) -> None:
    scope = _scope(options)
    if wrong := wrong_with(options.name, "x" * 8):
        raise ConfigurationError(wrong)
    if options.file:
        vault = Vault(home_folder(os.environ), FileAndKeyring(home_folder(os.environ)))
    vault.put(options.name, _value(options), description=options.description, scope=scope)
    stored = (
        _("Stored in {place}. Git sends {name} to the host that it is for; commands do not receive it.")
        if options.git
        else _("Stored in {place}. Models are called with {name}; commands do not receive it.")
        if options.models
        else _("Stored in {place}. Commands that use ${name} receive the value.")
    )
    notice(stored.format(place=vault.backend.place, name=options.name))


def _scope(options: argparse.Namespace) -> str:
    return scope_of(options.folder or "", options.conversation or "", git=options.git, models=options.models)


def _value(options: argparse.Namespace) -> str:
    if options.from_env:
        if (value := os.environ.get(options.from_env)) is None:
            raise ConfigurationError(f"The variable {options.from_env!a} is not set.")
        return value
    if options.stdin:
        return sys.stdin.read(MAX_BYTES + 1).removesuffix("\n")
    if not can_ask():
        raise ConfigurationError("Run this in a terminal to type the value, or pass --stdin or --from-env VARIABLE.")
    return getpass.getpass(_("Value of {name} (not shown): ").format(name=options.name))


def _adopt(vault: Vault) -> None:
    moved = adopt(home_folder(os.environ), vault)
    for setting, name in moved:
        notice(_("{setting} was moved to the secret {name}.").format(setting=setting, name=name))
    notice(_("config.toml contains no more API keys.") if moved else _("config.toml contains no API keys."))


def _allow(kind: str) -> None:
    home = home_folder(os.environ)
    shown = load(home, os.environ).secrets.shown_kinds
    save_settings(home, {"secrets.shown_kinds": sorted({*shown, kind})})
    notice(_("From the next start on, {kind} is no longer redacted.").format(kind=sanitize_line(kind, WIDTH)))
