"""The end of a workspace that failed: Textual's own words would show the values of variables. A mixin of the app."""

from __future__ import annotations

import logging
import sys

from tui.cli.failure_report import mask_here, trace_of
from tui.terminal_io.sanitizer import sanitize
from tui.workspace.frame import Frame

log = logging.getLogger(__name__)


class Failing(Frame):
    """What is left on the terminal, and in the log."""

    def _fatal_error(self) -> None:
        """End, and then say where it failed, without secrets; called while the exception is being handled."""
        from rich.text import Text

        log.exception("the workspace failed")
        error = sys.exception()
        assert error is not None
        told = mask_here(trace_of(error))
        if self.manager is not None:
            told = self.manager.mask(told)
        self.bell()
        self._exit_renderables.append(Text(sanitize(told)))
        self._close_messages_no_wait()
