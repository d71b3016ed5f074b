"""An editor's prompt as a message or command, and its outcome in the protocol's terms.

A message has text, pictures, and context for the model only. A link becomes a mention of the file in the text, because
the agent reads files itself. Text that the editor embeds goes with the message to the model, up to a limit.
`message_of` decodes pictures, which blocks; `stored_pictures` reads stored ones for a replay.

Commands are `/continue`, `/compact`, the prompts in Handloom's home and those of a trusted project.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    Cost,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    StopReason,
    TextContentBlock,
    TextResourceContents,
    UnstructuredCommandInput,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)

from core.controller.exit_reasons import HaltKind, HaltOption
from core.controller.state import State
from core.events import AgentState, Envelope, EventSource, LLMMetrics, MessageAction, TokenUsage
from core.headless import COMPACT, compact_argument
from core.memory.library import Gathered
from core.session.agent_session import AgentSession
from core.store.blobs import BlobRef
from core.stream import EventStream
from core.trust.folder_survey import Kind
from tui.acp.methods import INVALID_PARAMS
from tui.i18n import _
from tui.prompt import slash_commands
from tui.prompt.attachments import RefusedError, picture_of
from tui.terminal_io.sanitizer import sanitize_line

EMBEDDED_CHARS = 100_000
"""Limit for one embedded text; four times as much for a prompt. The model reads the rest from the file."""
MAX_PICTURES = 20
NAME_CELLS = 300
INTRODUCTION = "[The editor adds the contents of what the message refers to:]"
CONTINUE = "continue"
OWN_COMMANDS = (CONTINUE, COMPACT)
DESCRIPTION_CELLS = 200
CUT = "\n[… {count} characters are left out here; read the file for them …]\n"


@dataclass(slots=True)
class Message:
    """A message for the agent."""

    text: str = ""
    pictures: list[str] = field(default_factory=list)
    """`data:` URLs."""
    context: str = ""


def message_of(blocks: Sequence[object], folder: str) -> Message:
    """Return the message of a prompt in a conversation in `folder`. Blocks. Raises RequestError."""
    parts: list[str] = []
    embedded: list[str] = []
    message = Message()
    room = 4 * EMBEDDED_CHARS
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                parts.append(text)
            case ResourceContentBlock(uri=uri):
                parts.append(mention(uri, folder))
            case ImageContentBlock(data=data):
                message.pictures.append(_picture(data, len(message.pictures)))
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                parts.append(mention(uri, folder))
                embedded.append(_quoted(mention(uri, folder), text, min(EMBEDDED_CHARS, room)))
                room = max(room - len(text), 0)
            case EmbeddedResourceContentBlock(resource=resource):
                parts.append(mention(resource.uri, folder))
            case _:
                raise RequestError(INVALID_PARAMS, _("Audio is not supported. Type the message instead."))
    message.text = _joined(parts)
    message.context = "\n\n".join([INTRODUCTION, *embedded]) if embedded else ""
    if not message.text.strip():
        if not message.pictures:
            raise RequestError(INVALID_PARAMS, _("The message is empty. Write what you want done."))
        message.text = _("(an image)")
    return message


def mention(uri: str, folder: str) -> str:
    """Return the text for a link: the path of a file, relative if it is in the folder, else the address."""
    parts = _split(uri)
    if parts is None or parts[0] != "file":
        return sanitize_line(uri, NAME_CELLS)
    path = PurePosixPath(parts[1])
    shown = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
    return "@" + sanitize_line(shown, NAME_CELLS) + parts[2]


def _split(uri: str) -> tuple[str, str, str] | None:
    """Return scheme, path and line (`:12`); None if it is not an address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    first = parts.fragment.removeprefix("L").partition(":")[0].partition("-")[0]
    return parts.scheme, unquote(parts.path), f":{first}" if first.isdigit() and len(first) < 10 else ""


def _joined(parts: Sequence[str]) -> str:
    """Join the parts; mentions are words, and get spaces where needed."""
    text = ""
    for part in parts:
        runs_in = text and part and not text[-1].isspace() and not part[0].isspace() and part[0] not in ".,;:!?)"
        text += f" {part}" if runs_in else part
    return text


def _quoted(name: str, text: str, limit: int) -> str:
    """Return an embedded text with its name; the middle of a long one is left out."""
    left_out = len(text) - limit
    if left_out > 0:
        half = limit // 2
        text = text[:half] + CUT.format(count=left_out) + (text[-half:] if half else "")
    return f"{name}:\n{text}"


def _picture(data: str, number: int) -> str:
    """Return a picture's `data:` URL, with the type found from its bytes. Raises RequestError."""
    if number >= MAX_PICTURES:
        raise RequestError(INVALID_PARAMS, _("A message can have at most {n} images.").format(n=MAX_PICTURES))
    try:
        return picture_of(base64.b64decode(data, validate=True), _("The image")).url
    except RefusedError as error:
        raise RequestError(INVALID_PARAMS, str(error)) from error
    except (binascii.Error, ValueError) as error:
        raise RequestError(INVALID_PARAMS, _("An image is not valid base64. Send it again.")) from error


async def stored_pictures(envelope: Envelope, stream: EventStream) -> Sequence[UserMessageChunk]:
    """Return the pictures of a user's message that still exist. Raises StoreError."""
    event = envelope.event
    if not isinstance(event, MessageAction) or event.queued or envelope.source is not EventSource.USER:
        return []
    found: list[UserMessageChunk] = []
    for url in event.image_urls or []:
        ref = BlobRef.parse(url)
        blob = await stream.blob(ref) if ref is not None else None
        if blob is not None:
            data = base64.b64encode(blob.data).decode("ascii")
            picture = ImageContentBlock(type="image", data=data, mime_type=blob.ref.media_type)
            id = str(envelope.id)
            found.append(UserMessageChunk(session_update="user_message_chunk", content=picture, message_id=id))
    return found


# -- commands ----------------------------------------------------------------------------------------------------------


async def available_commands(home: Path, gathered: Gathered) -> AvailableCommandsUpdate:
    """The user's commands, those of a trusted project, tasks and skills."""
    own, _problems = await asyncio.to_thread(slash_commands.load, home, project_commands(gathered))
    about_continue = _("Continue after a stop, an error or a limit; a limit is extended by the same amount.")
    compact_input = AvailableCommandInput(root=UnstructuredCommandInput(hint=_("what to keep")))
    about_compact = _("Compact the conversation. Optionally say what to keep.")
    found = [
        AvailableCommand(name=CONTINUE, description=about_continue),
        AvailableCommand(name=COMPACT, description=about_compact, input=compact_input),
    ]
    for name, command in own.items():
        if name in OWN_COMMANDS:
            continue
        hint = sanitize_line(command.hint, DESCRIPTION_CELLS)
        found.append(
            AvailableCommand(
                name=name,
                description=sanitize_line(command.description, DESCRIPTION_CELLS) or name,
                input=AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)) if hint else None,
            )
        )
    recalled = {skill.name: skill.description for skill in gathered.library.skills}
    recalled |= {task.name: task.description for task in gathered.library.tasks()}
    for name, about in recalled.items():
        if name not in own and name not in OWN_COMMANDS:
            found.append(AvailableCommand(name=name, description=sanitize_line(about, DESCRIPTION_CELLS) or name))
    return AvailableCommandsUpdate(session_update="available_commands_update", available_commands=found)


def project_commands(gathered: Gathered) -> dict[str, str]:
    return {piece.path: piece.text for piece in gathered.standing.of(Kind.COMMAND)}


async def run_command(text: str, session: AgentSession) -> bool:
    """Run /continue or /compact; return False for a message. Raises as `AgentSession.recover` and `compact`."""
    if (keep := compact_argument(text)) is not None:
        await session.compact(keep)
        return True
    line = slash_commands.parse(text.strip())
    if line is None or line.name != CONTINUE or line.words:
        return False
    halt = session.state.halt
    options = [option for option in halt.options if option is not HaltOption.SWITCH_MODEL] if halt is not None else []
    if options and options[0] is not HaltOption.STOP:
        await session.recover(options[0])
    else:
        await session.resume()
    return True


async def expand_command(text: str, home: Path, gathered: Gathered | None) -> str:
    """Return the message of a command of the user or the project; any other text unchanged."""
    line = slash_commands.parse(text.strip())
    if line is None:
        return text.removeprefix("/") if text.startswith("//") else text
    project = project_commands(gathered) if gathered is not None else {}
    own, _problems = await asyncio.to_thread(slash_commands.load, home, project)
    command = own.get(line.name)
    return command.message(line.words) if command is not None else text


# -- outcome -----------------------------------------------------------------------------------------------------------


def stop_reason(state: State) -> StopReason | None:
    """Why a prompt ended; None for a failure, which is reported as an error.

    Never `refusal`: for an editor that means that the message is not in the conversation, and here it is.
    """
    if state.halt is not None:
        match state.halt.kind:
            case HaltKind.LIMIT:
                return "max_tokens" if state.halt.what == "tokens" else "max_turn_requests"
            case HaltKind.STUCK:
                return "end_turn"
        return None
    if state.agent_state is AgentState.STOPPED:
        return "cancelled"
    return None if state.agent_state is AgentState.ERROR else "end_turn"


def usage_update(metrics: LLMMetrics) -> UsageUpdate | None:
    """Context usage and cost; None if the size of the context is unknown."""
    usage = metrics.accumulated_token_usage
    if usage.context_window <= 0:
        return None
    cost = metrics.accumulated_cost
    return UsageUpdate(
        session_update="usage_update",
        used=min(usage.per_turn_token, usage.context_window),
        size=usage.context_window,
        cost=None if cost is None else Cost(amount=cost, currency="USD"),
    )


def usage_between(before: TokenUsage, after: TokenUsage) -> Usage | None:
    """The tokens of one prompt; None if the model does not count."""
    read = after.prompt_tokens - before.prompt_tokens
    written = after.completion_tokens - before.completion_tokens
    if read <= 0 and written <= 0:
        return None
    return Usage(
        total_tokens=read + written,
        input_tokens=read,
        output_tokens=written,
        cached_read_tokens=after.cache_read_tokens - before.cache_read_tokens,
        cached_write_tokens=after.cache_write_tokens - before.cache_write_tokens,
    )
