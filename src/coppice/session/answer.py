"""What a session answers at a leaf, in the file's own form: for programs, and for comparing with Pi.

An answer has the keys and the order of Pi's own context: leaf, name, labels, thinkingLevel, model, entries, messages.
The rules are tree/context.py's and tree/projection.py's; nothing here decides anything.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from coppice.format.messages import EntryId, JsonObject
from coppice.session.context import context_at
from coppice.session.manager import SessionManager
from coppice.session.store import SessionStore
from coppice.tree import context as contexts
from coppice.tree.family import NONE
from coppice.tree.projection import RawEntry, messages_json
from coppice.tree.replacement import replacement_of

KEPT_BYTES = 32 * 1024 * 1024
"""Bytes of lines whose JSON is kept while answers follow one another (our choice: the same as one cache generation)."""


class Answer(NamedTuple):
    """An answer, ready to be printed as JSON, and what is wrong with the context's kept range, if anything."""

    fields: JsonObject
    problem: str | None


class _RawEntries:
    """The JSON of entries that the last answers needed, so that a walk over all leaves does not read a path anew each
    time. Forgotten when it grows too large, and with the walk."""

    __slots__ = ("_bytes", "_kept", "_store")

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._kept: dict[int, RawEntry] = {}
        self._bytes = 0

    def at(self, ordinals: list[int]) -> list[RawEntry]:
        missing = [ordinal for ordinal in ordinals if ordinal not in self._kept]
        sizes = self._store.index.where.sizes
        needed = sum(sizes[ordinal] for ordinal in missing)
        if self._bytes + needed > KEPT_BYTES:
            self._kept, self._bytes = {}, 0
            missing, needed = ordinals, sum(sizes[ordinal] for ordinal in ordinals)
        self._kept.update(zip(missing, self._store.raw(missing), strict=True))
        self._bytes += needed
        return [self._kept[ordinal] for ordinal in ordinals]


def answer_at(session: SessionManager, leaf_id: EntryId | None) -> Answer:
    """The answer at a leaf; None is before the first entry.

    Raises:
        UnknownEntryId: there is no such entry.
    """
    return _answer(session, leaf_id, _RawEntries(session.store))


def every_answer(session: SessionManager) -> Iterator[Answer]:
    """The answer at the leaf the session is at, then at every entry in file order, then before the first one."""
    raw = _RawEntries(session.store)
    yield _answer(session, session.get_leaf_id(), raw)
    for entry_id in session.index.ids:
        yield _answer(session, entry_id, raw)
    yield _answer(session, None, raw)


def _answer(session: SessionManager, leaf_id: EntryId | None, raw: _RawEntries) -> Answer:
    store = session.store
    leaf = NONE if leaf_id is None else store.ordinal(leaf_id)
    compaction = store.newest_compaction(leaf)
    selection = contexts.select(store.index, leaf, compaction)
    entries = raw.at(selection.ordinals)
    if replacement_of(compaction) is None:
        messages, problem = messages_json(entries), selection.problem
    else:
        messages, problem = _replaced_messages(store, leaf, entries)
    model = session.model(leaf_id)
    fields = {
        "leaf": leaf_id,
        "name": session.get_session_name(),
        "labels": labels_of(session),
        "thinkingLevel": session.thinking_level(leaf_id),
        "model": None if model is None else {"provider": model.provider, "modelId": model.model_id},
        "entries": [entry.id for entry in entries],
        "messages": [message for message in messages if message.get("role") != "system"],
    }
    return Answer(fields, problem)


def _replaced_messages(store: SessionStore, leaf: int, entries: list[RawEntry]) -> tuple[list[JsonObject], str | None]:
    """The messages after a compaction that brings its own list (Pi shows its summary instead), and what is wrong."""
    view, problems = context_at(store, leaf)
    own = len(view.pairs) - len(contexts.message_pairs(view.entries[1:]))
    replaced: list[JsonObject] = [msgspec.to_builtins(message) for _, message in view.pairs[:own]]
    return replaced + messages_json(entries[1:]), "; ".join(problems) or None


def labels_of(session: SessionManager) -> dict[EntryId, str]:
    """The labels in force on entries of the file, in the file order of what they name."""
    by_id, labels = session.index.by_id, session.index.facts.labels
    return {target: labels[target].text for target in sorted(by_id.keys() & labels.keys(), key=by_id.__getitem__)}
