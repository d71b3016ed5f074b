"""The content of snapshots: one conversation with everything that a screen can show."""

from __future__ import annotations

from core.events import (
    ActionConfirmationStatus,
    CmdRunAction,
    EventSource,
    FileEditAction,
    FileEditObservation,
    Judged,
)
from tests.tui.workspace.running_app import Running

ANSWER = "I looked at **three** files. The bug is in `parse()`:\n\n```python\nreturn int(text) + 1  # off by one\n```"


async def conversation(it: Running, *, asks: bool = True) -> None:
    """A message, an answer, a command that failed, an edit, and a question."""
    session = it.session
    await session.send("Please mend the parser.")
    await session.say(ANSWER)
    await session.run("pytest -q", "1 failed, 3 passed\n", 1)
    edit = await session.stream.append_by_agent(FileEditAction(path="parser.py"))
    diff = "@@ -1,2 +1,2 @@\n def parse(text):\n-    return int(text) + 1\n+    return int(text)"
    observed = FileEditObservation(path="parser.py", diff=diff)
    await session.stream.append(observed, EventSource.ENVIRONMENT, edit.id)
    if asks:
        await session.hold(
            CmdRunAction(
                command="rm -rf build",
                confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION,
                judgement=Judged(verdict="ask", rule="mode always", risk="medium"),
            )
        )
    await it.settle()
