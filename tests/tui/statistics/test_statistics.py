"""The statistics of a conversation in a dialog are those that `handloom show` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.events import EventSource, MessageAction
from core.store.event_store import EventStore
from core.stream import EventStream
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import running, until
from tui.dialogs.dialog import TextScreen
from tui.statistics.cli import report


async def test_dialog_shows_the_output_of_the_command(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        lease = await store.create_conversation("c0", title="Mend it", workspace="/work", model="demo", repository="")
        stream = EventStream(store, lease)
        await stream.append(MessageAction(content="Mend it, please."), EventSource.USER)
        await stream.aclose()
        await store.release(lease)
        manager: Any = ManagerDouble()
        manager.store = store
        async with running((120, 45), manager) as it:
            await it.press("ctrl+x", "dollar_sign")
            await until(it.pilot, lambda: isinstance(it.app.screen, TextScreen))
            await it.settle()
            shown = it.screen_text()
            for line in (await report(store, "c0")).splitlines():
                assert line.strip() in shown
            assert "Mend it" in shown
            await it.press("escape")
            assert it.shows_the_workspace
