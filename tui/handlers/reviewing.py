"""What the conversation has changed, looked through. A mixin of the app's handlers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tui.i18n import _, counted

if TYPE_CHECKING:
    from textual.app import App

    from tui.model.conversation import ConversationTab
    from tui.screens.workspace import Workspace

    _App = App[None]
else:
    _App = object


class Reviewing(_App):
    """The command for the changes of a conversation, as a method of the app."""

    if TYPE_CHECKING:
        workspace: Workspace

        @property
        def living(self) -> ConversationTab | None: ...
        def attempt(self, work: Coroutine[Any, Any, None]) -> None: ...
        def flash(self, message: str) -> None: ...

    def do_conv_changes(self) -> None:
        if self.living is not None:
            self.attempt(self._look_through(self.living))

    async def _look_through(self, tab: ConversationTab) -> None:
        from core.session.review import comment
        from tui.screens.changes import ChangesScreen

        left = await self.push_screen_wait(ChangesScreen(tab.session.undoing.review))
        if not left.remarks:
            return
        said, beside = zip(*(comment(*remark) for remark in left.remarks), strict=True)
        if left.send:
            await tab.session.send("\n".join(said), context="\n\n".join(text for text in beside if text))
            self.flash(counted(len(said), "{n} remark is sent.", "{n} remarks are sent."))
        else:
            self.workspace.prompt.put("\n".join([self.workspace.prompt.text, *said]).strip())
            self.flash(_("What you remarked stands in the prompt."))
