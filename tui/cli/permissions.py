"""`handloom permissions`: what was allowed or denied for good, and taking it back.

Those of one conversation are events of its log, and are taken back in the workspace.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict

from core.home import home_folder
from core.security.permissions import PermissionFile
from tui.cli.lines import say
from tui.display.text import sanitize, sanitize_line

PATTERN_CELLS = 60


def permissions(options: argparse.Namespace) -> int:
    """List or revoke. Raises HandloomError."""
    file = PermissionFile(home_folder(os.environ))
    if options.step == "revoke":
        file.revoke(options.ids)
        return 0
    for permission in file.read():
        if options.json:
            say(json.dumps(asdict(permission) | {"pattern": str(permission.pattern)}))
            continue
        place = permission.folder or permission.scope
        pattern = sanitize_line(str(permission.pattern), PATTERN_CELLS)
        say(sanitize(f"{permission.id}  {permission.verdict:<5}  {pattern}  {place}  {permission.at}"))
    return 0
