"""Accepted prompts that are not entries yet: ``COPPICE_HOME/pending/<session id>.jsonl`` (docs/format.md).

Each waits under the id its entry will have, so that after a crash between storing the entry and taking the prompt out,
it is still there exactly once. The file is small and written anew at each change.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from coppice.errors import StorageFailure
from coppice.format.codec import decode_object, encode
from coppice.format.lenient import message_from
from coppice.format.messages import EntryId, Message, is_object
from coppice.storage.directory import private_directory, replace_file, safe_name
from coppice.storage.locks import lock_exclusive


class Pending(msgspec.Struct, frozen=True, rename="camel"):
    """A message that waits. ``kind``: steering, followUp, or prompt (waiting for something that comes before a turn)."""

    id: EntryId
    kind: str
    message: Message


class PendingFile:
    """The prompts of one session that wait. The file is the only copy; a lock beside the other locks guards a change."""

    __slots__ = ("_home", "_lock", "_path")

    def __init__(self, home: Path, session_id: str) -> None:
        self._home = home
        self._path = home / "pending" / f"{safe_name(session_id)}.jsonl"
        self._lock = home / "locks" / f"pending-{safe_name(session_id)}"

    def read(self) -> list[Pending]:
        """What waits, in order; lines that cannot be read are left out."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [item for line in lines if line.strip() and (item := _decoded(line)) is not None]

    def change(self, edit: Callable[[list[Pending]], list[Pending]]) -> list[Pending]:
        """Change what waits, durably, with no other process between; what waits then.

        Raises:
            StorageFailure: it cannot be written; what waited before is as it was.
        """
        private_directory(self._home / "locks")
        try:
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageFailure(f"{self._lock}: cannot be opened: {error.strerror}") from error
        try:
            lock_exclusive(fd)
            before = self.read()
            after = edit(before)
            if after != before:
                self._write(after)
            return after
        finally:
            os.close(fd)

    def _write(self, items: Sequence[Pending]) -> None:
        if not items:
            self._path.unlink(missing_ok=True)
            return
        private_directory(self._path.parent)
        replace_file(self._path, b"".join(encode(item) + b"\n" for item in items))


def _decoded(line: bytes) -> Pending | None:
    try:
        fields, _ = decode_object(line)
    except ValueError:
        return None
    entry_id, kind, message = fields.get("id"), fields.get("kind"), fields.get("message")
    if not isinstance(entry_id, str) or not isinstance(kind, str) or not is_object(message):
        return None
    return Pending(EntryId(entry_id), kind, message_from(message))
