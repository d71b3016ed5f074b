"""A conversation that another Handloom has: said by whom, and shown as it stands, with nothing that could answer in it.

Only one process owns a conversation, so of two screens only the owner's can say yes; the other one reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _

if TYPE_CHECKING:
    from core.errors import StoreBusyError
    from tui.handlers.frame import Frame

NEWEST = 2**53
"""Behind every event that there is."""


async def read_along(app: Frame, conversation_id: str, busy: StoreBusyError) -> None:
    """Show it where the user has asked for it by its name, else begin another one with its model.

    Raises HandloomError.
    """
    if app.options.resume:
        await app.open_replay(conversation_id, NEWEST)
        app.report(f"{busy}\n" + _("This is how it stands; here it can only be read."))
        return
    assert app.manager is not None
    model = next((c.model for c in await app.manager.list() if c.id == conversation_id), "")
    await app.new_conversation(model=model)
    app.report(f"{busy}\n" + _("This is a new one."))
