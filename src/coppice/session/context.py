"""The context at a leaf, read from the store: its entries decoded, what a replacement refers to looked up."""

from typing import NamedTuple

from coppice.format.entries import CompactionEntry, DamagedEntry, Entry, UnknownEntry
from coppice.format.messages import EntryId
from coppice.session.store import SessionStore
from coppice.tree.context import ContextView, message_pairs, select
from coppice.tree.family import NONE
from coppice.tree.path import those_on_path
from coppice.tree.replacement import replacement_of


class Viewed(NamedTuple):
    """A context and what is wrong with it, to be told once."""

    view: ContextView
    problems: list[str]


def context_at(store: SessionStore, leaf: int) -> Viewed:
    """The context at a leaf (docs/format.md, steps 1 to 4)."""
    compaction = store.newest_compaction(leaf)
    selection = select(store.index, leaf, compaction)
    entries = store.entries(selection.ordinals)
    referred, lost = _referred(store, compaction)
    problems = [selection.problem] if selection.problem else []
    problems += [
        f"the compaction {compaction.id!r} refers to {name!r}, which cannot be read" for name in lost if compaction
    ]
    return Viewed(ContextView(entries, message_pairs(entries, referred), selection.first_new), problems)


def _referred(store: SessionStore, compaction: CompactionEntry | None) -> tuple[dict[EntryId, Entry], list[EntryId]]:
    """The entries a compaction's replacement refers to, and the references that lead nowhere on its path."""
    replacement = replacement_of(compaction)
    if replacement is None or compaction is None:
        return {}, []
    index = store.index
    own = store.ordinal(compaction.id)
    named = [index.by_id.get(name, NONE) for name in replacement.references]
    above = those_on_path(index, {ordinal for ordinal in named if ordinal not in (NONE, own)}, own)
    found = [ordinal for ordinal in named if ordinal in above]
    lost = [name for name, ordinal in zip(replacement.references, named, strict=True) if ordinal not in above]
    entries = store.entries(found)
    unreadable = [entry.id for entry in entries if isinstance(entry, DamagedEntry | UnknownEntry)]
    return {entry.id: entry for entry in entries if entry.id not in unreadable}, [*lost, *unreadable]
