"""Starts and opens conversations: the first one, new ones, stored ones and forks."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.models.commands import pick_model
from tui.replay.replay_start import follow
from tui.shortcuts.command import keyed
from tui.terminal_io.sanitizer import sanitize_line
from tui.trust.commands import ask_trust

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.errors import StoreBusyError
    from core.session.agent_session import AgentSession
    from tui.workspace.context import Context

DEMO = "demo"
FIRST_CONVERSATION = ("tui.workspace.conversation", "tui.approval.question")
"""Modules that no start needs, and no conversation can do without."""
DEMO_TASK = _("Show me what you can do.")
"""The prompt's text in the demo, so that Enter is all it takes."""


async def open_first(app: Context) -> None:
    """Open the last conversation of the workspace folder, or a new one: always with a repository or instructions.

    A conversation without a message is opened only if the folder has no other.
    """
    from core.errors import HandloomError, StoreBusyError

    assert app.manager is not None
    if app.options.task:
        app.submission.early = (app.options.task, *app.submission.early)
    wanted = app.options.resume or ""
    if not wanted and not app.options.needs_new_conversation:
        here = [c for c in await app.manager.list() if c.workspace == app.options.workspace and not c.parent]
        here = [c for c in here if not c.is_unused]  # left by a program that was killed
        said = [c for c in here if c.first_line or c.title]
        wanted = next((c.id for c in (*said, *here)), "")
        if not here and app.options.resume == "":
            app.flash(_("This folder has no conversation yet; this is a new one."))
    if wanted:
        from core.library.conversation_ids import own_id

        try:
            id = await own_id(app.manager.store, wanted)
            folders = [c.workspace for c in await app.manager.list() if c.id == id]
            await ask_trust(app, folders[0] if folders else app.options.workspace)
            await app.tabs.add(await _open(app, app.manager, id))
        except StoreBusyError as error:
            await _follow_or_start(app, id, error)
            return
        except HandloomError as error:
            app.report(str(error))
        else:
            return
    await new_conversation(app)
    if app.options.demo and app.tabs.current is not None and not app.workspace.prompt.text:
        app.workspace.prompt.put(DEMO_TASK)


async def _open(app: Context, manager: ConversationManager, conversation_id: str) -> AgentSession:
    """Open a conversation, and switch it to the model of the options if there is one. Raises HandloomError."""
    await _load()
    from tui.models.key_screen import has_key

    model = app.options.model or ""
    if model and model != DEMO and not await has_key(app, manager, model):
        model = ""
    session = await manager.open(conversation_id, model=model)
    if model and session.info.model != model:
        before = session.info.model
        await session.active_model.switch(model)
        text = _("This conversation now uses {model}; before, it used {before}.")
        app.flash(text.format(model=sanitize_line(model, 60), before=sanitize_line(before, 60)))
    return session


async def _follow_or_start(app: Context, conversation_id: str, busy: StoreBusyError) -> None:
    """Follow a conversation that another process has open, if the user named it; else start one with the same model.

    Raises HandloomError.
    """
    if app.options.resume:
        await follow(app, conversation_id)
        app.submission.take_back_early()  # until the conversation is free
        app.report(f"{busy}\n" + _("You can follow it here, read-only."))
        return
    assert app.manager is not None
    model = next((c.model for c in await app.manager.list() if c.id == conversation_id), "")
    await new_conversation(app, model=model)
    app.report(f"{busy}\n" + _("This is a new one."))


async def new_conversation(app: Context, agent: str = "", model: str = "") -> None:
    """Start one in a new tab, with the model of the options, the agent, the settings or the start screen."""
    try:
        if app.manager is None:
            app.flash(_("Handloom is still starting."))
        else:
            await _start(app, app.manager, agent, model)
    finally:
        app.submission.take_back_early()  # unless it was sent


async def _load() -> None:
    """Load in a thread what the first conversation needs: it would hold up the screen, and the start screen's start."""
    for module in FIRST_CONVERSATION:
        await asyncio.to_thread(import_module, module)


async def _start(app: Context, manager: ConversationManager, agent: str, model: str) -> None:
    from tui.models.key_screen import has_key

    model, prompt = app.options.model or model, app.workspace.prompt
    if not model and not manager.settings.model:
        chosen = await _choose_model(app)
        if chosen is None:
            _explain_no_model(app)
            return
        model = chosen
        if model == DEMO and app.tabs.current is None and not app.submission.early and not prompt.text:
            prompt.put(DEMO_TASK)
    elif model != DEMO and not agent and not await has_key(app, manager, model or manager.settings.model):
        _explain_no_model(app)
        return
    await _load()
    folder, repository = app.options.workspace, app.options.repository
    if model != DEMO and not agent:  # who has just read an agent is asked about the rest later
        await ask_trust(app, folder)
    await app.tabs.add(await manager.create(workspace=folder, model=model, repository=repository, agent=agent))


def _explain_no_model(app: Context) -> None:
    app.tabs.show(app.tabs.current)
    message = _("No model is chosen. Press {conv.new} to choose one, or {app.help} for all keys.")
    app.workspace.chat.show_empty(keyed(message))


async def _choose_model(app: Context) -> str | None:
    assert app.manager is not None
    if app.tabs.conversation is not None:
        return app.tabs.conversation.model_name
    from tui.models.key_screen import ask_key
    from tui.models.start_screen import StartScreen, Steps, with_served

    manager = app.manager
    offers = with_served(manager.offers(), await manager.local_models())
    providers = [wanted for wanted, has_key in manager.keys.providers() if not has_key]
    keys = manager.keys
    steps = Steps(
        pick=lambda: pick_model(app),
        ask_key=lambda wanted: ask_key(app, manager, wanted),
        add_endpoint=keys.add_endpoint,
        check_endpoint=keys.check_endpoint,
        add_key=keys.add,
    )
    chosen = await app.push_screen_wait(StartScreen(app.options.workspace, offers, providers, steps))
    if chosen is None:
        return None
    await app.manager.choose_model(chosen.model, chosen.base_url)
    return str(chosen.model)


async def show_conversation(app: Context, conversation_id: str) -> None:
    """Show a conversation, opened if necessary; follow it if another process has it open."""
    from core.errors import StoreBusyError

    assert app.manager is not None
    try:
        session = await app.manager.open(conversation_id)
    except StoreBusyError:
        if conversation_id not in await app.manager.open_elsewhere([conversation_id]):
            raise
        await follow(app, conversation_id)
    else:
        await app.tabs.add(session)


async def fork_from(app: Context, conversation_id: str, event_id: int) -> None:
    """Ask with which files, then show a fork of any conversation, from this event on, in a new tab."""
    from tui.dialogs.dialog import Choice, ChoiceScreen

    assert app.manager is not None
    choices = [
        Choice("copy", _("A copy of the files at that point"), _("without .git and what it ignores")),
        Choice("same", _("The same folder"), _("both conversations work in it")),
    ]
    title = _("Fork from event {id}: use which files?").format(id=event_id)
    chosen = await app.push_screen_wait(ChoiceScreen(title, choices))
    if chosen is None:
        return
    session = await app.manager.fork(conversation_id, event_id, copy_files=chosen == "copy")
    await app.tabs.add(session)
    folder = sanitize_line(session.info.workspace, 200)
    if chosen == "copy":
        app.report(_("The fork works in its own copy of the files: {folder}").format(folder=folder))
    else:
        app.flash(_("The fork works in {folder}, like the original.").format(folder=folder))
