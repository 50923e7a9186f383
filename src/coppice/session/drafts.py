"""What an entry gets when it is made: an id nobody has, and the time."""

import os
import time
import uuid
from collections.abc import Container
from datetime import UTC, datetime
from functools import lru_cache

from coppice.format.messages import EntryId

COLLISIONS = 100
"""After so many taken 8-digit ids a full UUID is used (Pi's rule)."""


def new_entry_id(taken: Container[EntryId]) -> EntryId:
    """8 random hexadecimal digits that are not taken; a UUID after repeated collisions."""
    for _ in range(COLLISIONS):
        entry_id = EntryId(os.urandom(4).hex())
        if entry_id not in taken:
            return entry_id
    return EntryId(str(uuid.uuid4()))


def new_session_id() -> str:
    """A random UUID whose first 48 bits are the time (version 7's layout), so that ids sort by age."""
    stamp = time.time_ns() // 1_000_000
    value = (stamp << 80) | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | (7 << 76)
    value = value & ~(0x3 << 62) | (2 << 62)
    return str(uuid.UUID(int=value))


def timestamp() -> str:
    """Now, ISO 8601 in UTC with milliseconds, as every entry has it."""
    seconds, millis = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(seconds)}.{millis:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def now_ms() -> int:
    """Now in Unix milliseconds, as messages have it."""
    return time.time_ns() // 1_000_000
