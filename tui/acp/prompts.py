"""An editor's prompt as a message: text, pictures, and context for the model only.

A link becomes a mention of the file in the text, because the agent reads files itself. Text that the editor embeds goes
with the message to the model, up to a limit. `message_of` decodes pictures, which blocks; `shown` reads stored ones for
a conversation that is shown again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError
from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
    UserMessageChunk,
)

from core.events import Envelope, EventSource, MessageAction
from core.store.blobs import BlobRef
from core.stream import EventStream
from tui.acp.methods import INVALID_PARAMS
from tui.i18n import _
from tui.prompt.attachments import RefusedError, picture_of
from tui.terminal_io.sanitizer import sanitize_line

EMBEDDED_CHARS = 100_000
"""Of one embedded text, and of all texts of a prompt together the fourfold; the model reads the rest from the file."""
MAX_PICTURES = 20
NAME_CELLS = 300
INTRODUCTION = "[The editor adds the contents of what the message refers to:]"
CUT = "\n[… {count} characters are left out here; read the file for them …]\n"


@dataclass(slots=True)
class Message:
    """A message for the agent."""

    text: str = ""
    pictures: list[str] = field(default_factory=list)
    """`data:` URLs."""
    context: str = ""


def message_of(blocks: Sequence[object], folder: str) -> Message:
    """The message that these blocks are, in a conversation of this folder. Blocks. Raises RequestError."""
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
                raise RequestError(INVALID_PARAMS, _("Sound cannot be sent. Write the message instead."))
    message.text = _joined(parts)
    message.context = "\n\n".join([INTRODUCTION, *embedded]) if embedded else ""
    if not message.text.strip():
        if not message.pictures:
            raise RequestError(INVALID_PARAMS, _("The message is empty. Write what shall be done."))
        message.text = _("(a picture)")
    return message


def mention(uri: str, folder: str) -> str:
    """How a text names what a link leads to: the path of a file, within the folder without it, else the address."""
    parts = _split(uri)
    if parts is None or parts[0] != "file":
        return sanitize_line(uri, NAME_CELLS)
    path = PurePosixPath(parts[1])
    shown = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
    return "@" + sanitize_line(shown, NAME_CELLS) + parts[2]


def _split(uri: str) -> tuple[str, str, str] | None:
    """Scheme, path and the lines that are meant (`:12`); None where it is no address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    first = parts.fragment.removeprefix("L").partition(":")[0].partition("-")[0]
    return parts.scheme, unquote(parts.path), f":{first}" if first.isdigit() and len(first) < 10 else ""


def _joined(parts: Sequence[str]) -> str:
    """The parts as one text: mentions are words in it, and get spaces where they would run into others."""
    text = ""
    for part in parts:
        runs_in = text and part and not text[-1].isspace() and not part[0].isspace() and part[0] not in ".,;:!?)"
        text += f" {part}" if runs_in else part
    return text


def _quoted(name: str, text: str, limit: int) -> str:
    """An embedded text behind its name, its middle left out where it is too long."""
    left_out = len(text) - limit
    if left_out > 0:
        half = limit // 2
        text = text[:half] + CUT.format(count=left_out) + (text[-half:] if half else "")
    return f"{name}:\n{text}"


def _picture(data: str, number: int) -> str:
    """A picture's `data:` URL, its kind by its bytes. Raises RequestError."""
    if number >= MAX_PICTURES:
        raise RequestError(INVALID_PARAMS, _("A message has {n} pictures at most.").format(n=MAX_PICTURES))
    try:
        return picture_of(base64.b64decode(data, validate=True), _("The picture")).url
    except RefusedError as error:
        raise RequestError(INVALID_PARAMS, str(error)) from error
    except (binascii.Error, ValueError) as error:
        raise RequestError(INVALID_PARAMS, _("A picture was no base64. Send it again.")) from error


async def shown(envelope: Envelope, stream: EventStream) -> Sequence[UserMessageChunk]:
    """The pictures of a message of the user's; those that are not there any more are left out. Raises StoreError."""
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
