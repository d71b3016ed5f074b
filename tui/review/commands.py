"""What the conversation has changed, looked through. A mixin of the app's handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _, counted
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from tui.workspace.conversation import ConversationTab


class Reviewing(Frame):
    """The command for the changes of a conversation, as a method of the app."""

    def do_conv_changes(self) -> None:
        if self.living is not None:
            self.attempt(self._look_through(self.living))

    async def _look_through(self, tab: ConversationTab) -> None:
        from core.review.review import comment
        from tui.review.screen import ChangesScreen

        left = await self.push_screen_wait(ChangesScreen(tab.session.undo.review))
        if not left.remarks:
            return
        said, beside = zip(*(comment(*remark) for remark in left.remarks), strict=True)
        if left.send:
            await tab.session.send("\n".join(said), context="\n\n".join(text for text in beside if text))
            self.flash(counted(len(said), "{n} remark is sent.", "{n} remarks are sent."))
        else:
            self.workspace.prompt.put("\n".join([self.workspace.prompt.text, *said]).strip())
            self.flash(_("What you remarked stands in the prompt."))
