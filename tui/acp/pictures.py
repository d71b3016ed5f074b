"""Pictures of an event as the editor gets them: read from beside the log, for a conversation that is told again."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from acp.schema import ImageContentBlock, UserMessageChunk

from core.events import Envelope, EventSource, MessageAction
from core.store.blobs import BlobRef
from core.stream import EventStream


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
