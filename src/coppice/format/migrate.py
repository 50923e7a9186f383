"""Old versions of the format, migrated in memory (docs/format.md, Old versions).

Version 1 is a plain list: entries have no ids and a compaction names what it keeps by position. Version 2 calls the
role ``custom`` ``hookMessage``. Migrated ids are a function of the file, so every reading gives the same ones.
"""

import json
from hashlib import sha256

from coppice.format.messages import EntryId, JsonObject, is_object


def migrated_id(session_id: str, line_number: int, attempt: int = 0) -> EntryId:
    """Id of a version-1 entry: 8 hex digits of a hash of session id and line number (`attempt` > 0 after a collision)."""
    source = f"{session_id}:{line_number}" + (f":{attempt}" if attempt else "")
    return EntryId(sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8])


def version_of(header: JsonObject) -> int:
    """The version a header names; 1 where there is none."""
    version = header.get("version")
    if isinstance(version, float) and version.is_integer():  # JSON knows one kind of number
        version = int(version)
    return version if isinstance(version, int) and not isinstance(version, bool) and version >= 1 else 1


def upgraded(
    fields: JsonObject, entry_id: EntryId, parent_id: EntryId | None, first_kept: EntryId | None
) -> JsonObject:
    """A version-1 or -2 entry as version 3, every field nobody changed kept.

    `first_kept` is the id that a compaction's ``firstKeptEntryIndex`` names, None where it names none.
    """
    given = {"type": fields.get("type"), "id": entry_id, "parentId": parent_id}
    entry = given | {key: value for key, value in fields.items() if key not in given}
    if "firstKeptEntryIndex" in entry:
        del entry["firstKeptEntryIndex"]
        if first_kept is not None:
            entry["firstKeptEntryId"] = first_kept
    message = entry.get("message")
    if is_object(message) and message.get("role") == "hookMessage":
        entry["message"] = message | {"role": "custom"}
    return entry


def upgraded_line(entry: JsonObject) -> bytes:
    """An upgraded entry as a line; half characters stay as escapes, as they were."""
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
