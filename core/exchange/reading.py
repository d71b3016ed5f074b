"""Reading: a file or a folder of a stranger becomes one `Imported`, or is refused with one sentence.

What it is is told by its content and never by its name. Nothing is stored and nothing is carried out here. Blocks: call
it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from core.errors import ImportRefusedError
from core.exchange import archive_in, conversation_in
from core.exchange.bounded_json import Fault
from core.exchange.imported import Imported
from core.exchange.numbering import Numbering
from core.exchange.sources import Archive, Folder, Tree, opened, read_file
from core.secrets import Masker

_ZIP = b"PK"
_PACKED = {
    b"\x1f\x8b": "packed with gzip",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ": "packed with xz",
    b"7z\xbc\xaf": "a 7z archive",
}
_TAR_MARK, _TAR_AT = b"ustar", 257
_HEAD_BYTES = 512
_HINT = "get a whole and unchanged copy of it"


def _never() -> None:
    """Nobody wants it to end."""


def read(
    path: Path,
    *,
    conversation_id: str = "",
    masker: Masker | None = None,
    now: datetime | None = None,
    check: Callable[[], None] = _never,
) -> Imported:
    """The conversation in a file or folder: a trajectory, a folder of event files, either of them zipped, our archive.

    `check` is called again and again, and raises where the user wants it to end. Raises ImportRefusedError.
    """
    numbering = Numbering(conversation_id, now or datetime.now(UTC), masker or Masker(), check)
    try:
        with opened(path) as source:
            return _from_tree(source, numbering) if isinstance(source, Folder) else _from_file(source, numbering)
    except OSError as error:
        why = f"it cannot be read ({error.strerror}); look after the disk that it is on"
        raise ImportRefusedError(f"{path.name} is not imported: {why}, and try again.") from error
    except Fault as fault:
        where = f" ({fault.where})" if fault.where else ""
        name = path.name or str(path)
        raise ImportRefusedError(
            f"{name} is not imported{where}: {fault.why}; {fault.hint or _HINT}, and try again."
        ) from fault


def _from_file(file: BinaryIO, numbering: Numbering) -> Imported:
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if head.startswith(_ZIP):
        return _from_tree(Archive(file), numbering)
    for mark, what in _PACKED.items():
        if head.startswith(mark):
            raise Fault(f"it is {what}, which is not read here", hint="unpack it")
    if head[_TAR_AT : _TAR_AT + len(_TAR_MARK)] == _TAR_MARK:
        raise Fault("it is a tar archive, which is not read here", hint="unpack it")
    return conversation_in.from_trajectory(read_file(file), numbering)


def _from_tree(tree: Tree, numbering: Numbering) -> Imported:
    if archive_in.is_archive(tree):
        return archive_in.from_archive(tree, numbering)
    files = conversation_in.event_files(tree)
    if files is None:
        raise Fault(
            "it holds no events of a conversation",
            hint="name a folder with `events/0.json` or `events/event-00000-....json` in it, or a trajectory",
        )
    return conversation_in.from_folder(tree, files, numbering)
