"""The entry cache: decoded entries by ordinal, within a budget of bytes. An entry never changes, so it cannot go stale."""

from coppice.format.entries import Entry

GENERATION_BYTES = 32 * 1024 * 1024
"""Size in bytes of raw lines a generation holds; at most two generations are alive (our choice: a long context is 1 MB)."""


class EntryCache:
    """Two generations: what was asked for lately, and what was before. A full young one becomes the old one."""

    __slots__ = ("_bytes", "_limit", "_old", "_young")

    def __init__(self, limit: int = GENERATION_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._young: dict[int, Entry] = {}
        self._old: dict[int, Entry] = {}

    def get(self, ordinal: int) -> Entry | None:
        """The entry if it is cached."""
        found = self._young.get(ordinal)
        return self._old.get(ordinal) if found is None else found

    def many(self, ordinals: list[int]) -> tuple[list[Entry | None], list[int]]:
        """The cached entries, None where there is none, and the ordinals that are missing."""
        young, old = self._young.get, self._old.get
        found = [young(ordinal) or old(ordinal) for ordinal in ordinals]
        if None not in found:
            return found, []
        return found, [ordinal for ordinal, entry in zip(ordinals, found, strict=True) if entry is None]

    def put(self, ordinal: int, entry: Entry, size: int) -> None:
        """Keep an entry whose line has `size` bytes."""
        if self._bytes + size > self._limit and self._young:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[ordinal] = entry
        self._bytes += size
