"""Gaps on a path that were bridged by guess: finding them, refusing a request over one, the user's yes to them."""

from pathlib import Path

from coppice.errors import BridgeNeedsConsent
from coppice.format.messages import EntryId
from coppice.tree.index import TreeIndex
from coppice.tree.path import is_on_path


def uncertain_bridges(index: TreeIndex, leaf: int) -> list[EntryId]:
    """Entries on the path to a leaf whose parent is lost and was guessed where the tree has branches."""
    doubtful = [ordinal for ordinal, certain in index.facts.bridges.items() if not certain]
    return [index.ids[ordinal] for ordinal in doubtful if is_on_path(index, ordinal, leaf)]


def check_bridges(index: TreeIndex, leaf: int, path: Path | None) -> None:
    """Refuse to build a request over a guess.

    Raises:
        BridgeNeedsConsent: the path crosses such a gap.
    """
    found = uncertain_bridges(index, leaf)
    if found:
        line = index.place(index.by_id[found[0]]).line
        raise BridgeNeedsConsent(
            f"{path}:{line}: the parent of {found[0]} is lost and the tree has branches there, so the path to it is a "
            "guess. Look at it with /tree, go elsewhere, or accept it (--accept-bridge)."
        )


def accept_bridges(index: TreeIndex, leaf: int) -> None:
    """The user's yes to the guesses on the path, for as long as this session is open."""
    for entry_id in uncertain_bridges(index, leaf):
        index.facts.bridges[index.by_id[entry_id]] = True
