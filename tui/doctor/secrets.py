"""Where secrets are kept, whether others may read them, and whether keys stand in the settings."""

from __future__ import annotations

import stat

from core.errors import ConfigurationError
from core.home import CONFIG
from core.secrets.backends import wrong_mode
from core.secrets.vault import INDEX, VALUES, Vault
from core.settings.adopting import keys_in
from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _


def secrets(patient: Patient) -> Finding:
    """Looks at modes and names. No value is read but where the settings hold one."""
    home = patient.home
    for file in (home / VALUES, home / INDEX):
        if wrong := wrong_mode(file):
            return Finding(Mark.NOTE, wrong)
    if home.exists() and stat.S_IMODE(home.stat().st_mode) & 0o077:
        found = _("others may look into {folder}").format(folder=home)
        return Finding(Mark.NOTE, found, _("Run chmod 700 on it."))
    try:
        keys = keys_in(home)
        count = len(Vault(home).all())
    except ConfigurationError as error:
        return Finding(Mark.NOTE, str(error))
    if keys:
        found = _("keys stand in {file}: {settings}").format(file=home / CONFIG, settings=", ".join(keys))
        return Finding(Mark.NOTE, found, _("Run handloom secrets adopt, which keeps them and takes them out."))
    return Finding(Mark.OK, _("{count} kept; handloom secrets list names them").format(count=count))
