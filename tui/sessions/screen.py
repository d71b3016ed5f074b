"""The session manager: every conversation of the home, and what can be done with one.

In the list, letters are commands; in the field above they are text. The store is used through `SessionActions`; a
command that leaves the screen, such as opening a conversation, is its result. Deleting asks first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import set_cell_size
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from core.errors import HandloomError, OutOfReachError
from core.import_export.agents.names import AGENTS
from core.store.conversations import ConversationInfo
from tui.dialogs.dialog import Choice, ChoiceScreen, LineScreen, SureScreen, TextScreen
from tui.i18n import _, counted
from tui.sessions.conversation_list import ORDERS, bytes_of
from tui.sessions.filter_chips import KEYS, NAMES, ORIGINS, OUR_ORIGINS, Chip, Filters
from tui.sessions.session_rows import CLOSED
from tui.sessions.session_search import FILTER_PLACEHOLDER, TYPED_S, SessionChoice, SessionSearchScreen
from tui.sessions.view import ChipBar
from tui.terminal_io.sanitizer import sanitize_line

TITLE_CHARS = 120
KEY_CELLS = 12
TITLE_CELLS = 50
COMMAND_KEYS = {
    "e": ("export", _("export")),
    "f": ("fork", _("fork")),
    "p": ("replay", _("replay")),
    "R": ("again", _("run again")),
}
CHIPS = tuple(Chip)


class SessionsScreen(SessionSearchScreen):
    """Find a conversation and choose what to do with it."""

    HELP = _("Type to filter, Tab searches all text. In the list, letters are commands; ? shows them.")
    AUTO_FOCUS = "#sessions-find"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("enter", "open", "Open", priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
        Binding("down", "step(1)", show=False, priority=True),
        Binding("tab,ctrl+f", "search", "Search", priority=True),
        Binding("slash", "find", show=False),
        Binding("space", "select", show=False),
        Binding("r", "rename", show=False),
        Binding("d", "delete", show=False),
        Binding("D", "delete_selected", show=False),
        Binding("o", "sort", show=False),
        Binding("left,right", "toggle_delegates", show=False),
        Binding("question_mark,f1", "help", show=False),
        Binding("0", "clear", show=False),
        Binding("backspace", "drop_chip", show=False),
        *(Binding(key, f"choose_command('{kind}')", show=False) for key, (kind, word) in COMMAND_KEYS.items()),
        *(Binding(str(number), f"turn({number - 1})", show=False) for number in range(1, len(Chip) + 1)),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Single letters are commands only while the list has the focus."""
        if action in ("back", "open", "step", "search"):
            return True
        return self.focused is self._rows

    # -- moving --------------------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        self._read(after_s=TYPED_S)

    def action_step(self, step: int) -> None:
        if self._field.has_focus:
            self.set_focus(self._rows)
            if step > 0 and self._rows.cursor == 0:
                return  # the first row is already the one that the user looks at
        self._rows.action_move(step)

    def action_find(self) -> None:
        self.set_focus(self._field)

    def action_search(self) -> None:
        info = self.selected
        self._searches = not self._searches
        self._field.placeholder = (
            _("Search messages, actions and output of all conversations") if self._searches else FILTER_PLACEHOLDER
        )
        self.set_focus(self._field)
        self._show_keys()
        self._read(at=info.id if info is not None else "")

    def action_back(self) -> None:
        """Leave the search, then clear the text, then close the screen."""
        if self._searches:
            self.action_search()
        elif self._field.value:
            self._field.value = ""
            self.set_focus(self._field)
        else:
            self.dismiss(None)

    def action_toggle_delegates(self) -> None:
        if not self._searches:
            self._in_background("rows", self._toggle_delegates, self._rows.cursor)

    async def _toggle_delegates(self, row: int) -> None:
        await self._list.toggle_delegates(row)
        self._rows.show()

    # -- chips ---------------------------------------------------------------------------------------------------------

    def action_turn(self, number: int) -> None:
        self._turn(CHIPS[number])

    def action_drop_chip(self) -> None:
        self._set_filters(self._state.filters.without_last())

    def action_clear(self) -> None:
        self._set_filters(Filters())

    def action_sort(self) -> None:
        if self._searches:
            return  # hits have one order
        self._state.order = ORDERS[(ORDERS.index(self._state.order) + 1) % len(ORDERS)]
        self._read()

    def on_chip_bar_clicked(self, message: ChipBar.Clicked) -> None:
        if message.remove:
            self._set_filters(self._state.filters.without(message.chip))
        else:
            self._turn(message.chip)

    def on_chip_bar_order_clicked(self) -> None:
        self.action_sort()

    def _turn(self, chip: Chip) -> None:
        if chip is Chip.MODEL:
            self._in_background("model", self._choose_model)
        elif chip is Chip.ORIGIN:
            self._in_background("origin", self._turn_origin)
        else:
            self._set_filters(self._state.filters.next_value(chip, self._here))

    def _set_filters(self, filters: Filters) -> None:
        if not self._searches:
            self._state.filters = filters
            self._read()

    async def _choose_model(self) -> None:
        models = await self._actions.store.listing.models()
        choices = [Choice("", _("any"))] + [Choice(name, sanitize_line(name, TITLE_CELLS)) for name in models]
        name = await self.app.push_screen_wait(ChoiceScreen(_("Model"), choices))
        if name is not None:
            self._set_filters(self._state.filters.with_value(Chip.MODEL, name))

    async def _turn_origin(self) -> None:
        """The next origin, or a list of them if there are sessions of other agents."""
        agents = [name for name in await self._actions.store.listing.origins() if name not in OUR_ORIGINS]
        if not agents:
            self._set_filters(self._state.filters.next_value(Chip.ORIGIN, self._here))
            return
        any_origin = Choice("*", _("any"))
        choices = [any_origin] + [Choice(name, ORIGINS.get(name, name)) for name in (*OUR_ORIGINS, *agents)]
        name = await self.app.push_screen_wait(ChoiceScreen(_("Origin"), choices))
        if name is not None:
            self._set_filters(self._state.filters.with_value(Chip.ORIGIN, None if name == "*" else name))

    # -- one conversation ----------------------------------------------------------------------------------------------

    def action_open(self) -> None:
        self._in_background("rows", self._open)

    async def _open(self) -> None:
        await self._read_now()  # Enter may come before the rows for the last letter
        info, hit = self.selected, self._hit
        if info is not None:
            self.dismiss(SessionChoice("open", info.id, hit.event_id if hit is not None else None))

    def on_rows_view_opened(self) -> None:
        self.action_open()

    def action_choose_command(self, kind: str) -> None:
        info, hit = self.selected, self._hit
        if info is not None:
            self.dismiss(SessionChoice(kind, info.id, hit.event_id if hit is not None else None))

    def action_rename(self) -> None:
        if (info := self.selected) is not None and info.origin in AGENTS:
            self._show_message(_("A session of another agent keeps the name that its agent gave it."), wrong=True)
        elif info is not None:
            self._in_background("change", self._rename, info)

    async def _rename(self, info: ConversationInfo) -> None:
        ask = LineScreen(_("Name of this conversation"), _("A few words"), sanitize_line(info.title, TITLE_CHARS))
        text = await self.app.push_screen_wait(ask)
        title = " ".join((text or "").split())[:TITLE_CHARS]
        if title:
            await self._actions.rename(info.id, title)
            self._read(at=info.id)
        elif text is not None:
            self._show_message(_("The name cannot be empty. It was not changed."), wrong=True)

    # -- several -------------------------------------------------------------------------------------------------------

    def action_select(self) -> None:
        """Select the conversation for commands on several, or deselect it; then move on."""
        if (info := self.selected) is not None and info.origin in AGENTS:
            self._show_message(_("Sessions of other agents cannot be selected."), wrong=True)
        elif info is not None and not self._searches:
            self._selected_ids.symmetric_difference_update({info.id})
            self._show_chips()
            self._rows.action_move(1)

    def action_delete(self) -> None:
        if (info := self.selected) is not None and info.origin in AGENTS:
            self._in_background("change", self._delete_copy, info)
        elif info is not None:
            self._in_background("change", self._delete, [info.id])

    async def _delete_copy(self, info: ConversationInfo) -> None:
        """Delete the copy of a session that its agent has deleted; the others are not ours."""
        if not self._actions.is_only_copy(info.id):
            self._show_message(_("This session belongs to another agent, so it is not deleted here."), wrong=True)
            return
        question = _("Its agent deleted this session, so this is the last copy of “{title}”. Delete it for ever?")
        title = sanitize_line(info.title or info.first_line or _("Untitled"), TITLE_CELLS)
        if await self.app.push_screen_wait(SureScreen(question.format(title=title), _("delete"))):
            row = self._rows.cursor
            await self._actions.delete(info.id, False)
            await self._reload(row)
            self._show_message(_("The copy was deleted."))

    def action_delete_selected(self) -> None:
        if self._selected_ids:
            self._in_background("change", self._delete, sorted(self._selected_ids))
        else:
            self._show_message(
                _("Nothing is selected. Press space to select the conversation under the cursor."), wrong=True
            )

    async def _delete(self, ids: Sequence[str]) -> None:
        row = self._rows.cursor
        if not await self.app.push_screen_wait(SureScreen(await self._question(ids), _("delete"))):
            return
        deleted, refused, out_of_reach = await self._deleted(ids)
        if out_of_reach:
            question = _(
                "The container engine does not respond, so the containers of {count} cannot be "
                "removed now. Delete anyway? Handloom removes the containers when it next uses "
                "the engine."
            )
            counts = counted(len(out_of_reach), "{n} conversation", "{n} conversations")
            if await self.app.push_screen_wait(SureScreen(question.format(count=counts), _("delete"))):
                more, refused, _left = await self._deleted(out_of_reach, later=True)
                deleted += more
        await self._reload(row)
        message = (
            counted(deleted, "{n} conversation was deleted.", "{n} conversations were deleted.") if deleted else ""
        )
        self._show_message(" ".join(filter(None, (message, refused))), wrong=bool(refused))

    async def _deleted(self, ids: Sequence[str], *, later: bool = False) -> tuple[int, str, list[str]]:
        """How many were deleted, the last error, and the ids that can only be deleted `later`."""
        deleted, refused, out_of_reach = 0, "", list[str]()
        for number, id in enumerate(ids, 1):
            self._show_message(_("Deleting {n} of {all}…").format(n=number, all=len(ids)))
            try:
                await self._actions.delete(id, later)
            except HandloomError as error:
                refused = str(error)
                if isinstance(error, OutOfReachError):
                    out_of_reach.append(id)
                continue
            deleted += 1
            self._selected_ids.discard(id)
        return deleted, refused, out_of_reach

    async def _question(self, ids: Sequence[str]) -> str:
        store, delegates, size, events, title = self._actions.store, 0, 0, 0, ""
        for id in ids:
            below = await store.descendants(id)
            for info in [*await store.conversations(conversation_id=id), *below]:
                size, events = size + info.size, events + info.event_count
                title = title or info.title or info.first_line or _("Untitled")
            delegates += len(below)
        named = _("“{title}”").format(title=sanitize_line(title, TITLE_CELLS))
        what = named if len(ids) == 1 else _("{n} conversations").format(n=len(ids))
        lines = [_("Permanently delete {what}?").format(what=what)]
        goes = [_("{events} events ({size})").format(events=f"{events:,}", size=bytes_of(size))]
        if delegates:
            goes.append(counted(delegates, "{n} delegate", "{n} delegates"))
        goes.append(_("checkpoints, the sandbox's folder and its container"))
        lines.append(_("This also deletes: {what}.").format(what=_(", ").join(goes)))
        lines.append(_("Files in the workspace are kept. This cannot be undone."))
        if any(self._open_states.get(id, CLOSED).here for id in ids):
            lines.append(_("Open conversations are closed first."))
        return "\n".join(lines)

    # -- help ----------------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        keys = [
            ("Enter", _("open; a match opens at its event")),
            ("↑ ↓ j k", _("move; PgUp PgDn, Home End and g G move further")),
            ("/", _("go to the filter field")),
            ("Tab ctrl+f", _("search all text, or return to the list")),
            ("← →", _("expand or collapse delegates")),
            *((KEYS[chip], _("filter: {name}").format(name=NAMES[chip])) for chip in CHIPS),
            (_("Backspace"), _("remove the last filter")),
            ("0", _("remove all filters")),
            ("o", _("sort by: last updated, created, title, cost, size")),
            ("r", _("rename")),
            *((key, word) for key, (_kind, word) in COMMAND_KEYS.items()),
            ("d", _("delete (asks first)")),
            (_("Space"), _("select, to act on several")),
            ("D", _("delete the selected conversations (asks first)")),
            ("Esc", _("leave the search, clear the text, close the screen")),
        ]
        lines = [Content.assemble((set_cell_size(key, KEY_CELLS), "bold $text-accent"), word) for key, word in keys]
        self.app.push_screen(TextScreen(_("Conversations"), Content("\n").join(lines)))
