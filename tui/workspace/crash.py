"""The end of a workspace that failed: Textual's own report would show the values of variables."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from rich.text import Text

from tui.cli.failure_report import mask_here, trace_of
from tui.terminal_io.sanitizer import sanitize

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager

log = logging.getLogger(__name__)


def crash_report(manager: ConversationManager | None) -> Text:
    """Log the exception that is being handled, and say where it happened, without secrets."""
    log.exception("the workspace failed")
    error = sys.exception()
    assert error is not None
    text = mask_here(trace_of(error))
    return Text(sanitize(manager.mask(text) if manager is not None else text))
