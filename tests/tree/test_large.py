"""100,000 entries, deep and wide, at the default recursion limit: they simply work."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tree.interleaving import find_interleaving
from coppice.tree.outline import Filter, View, outline, rails
from coppice.tree.pairing import Reader
from coppice.tree.path import common_ancestor, descendants, is_on_path, tips
from tests.session.build import Fields, assistant, entry, label, session_file, user

COUNT = 100_000

pytestmark = pytest.mark.slow


def ids() -> Iterator[str]:
    return (f"e{number:07d}" for number in range(1, COUNT + 1))


def deep() -> list[Fields]:
    parents = [None, *ids()]
    return [(user if n % 2 else assistant)(i, p, "x") for n, (i, p) in enumerate(zip(ids(), parents, strict=False), 1)]


def wide() -> list[Fields]:
    return [user("root", None), *(user(entry_id, "root", "x") for entry_id in ids())]


def wide_settings() -> list[Fields]:
    return [user("root", None), *(entry("custom", entry_id, "root", customType="x") for entry_id in ids())]


def labels_then_messages() -> list[Fields]:
    half = COUNT // 2
    lines: list[Fields] = [user("root", None)]
    lines += [label(f"l{n}", f"l{n - 1}" if n else "root", "root", "x") for n in range(half)]
    return lines + [user(f"u{n}", "root", "x") for n in range(half)]


@pytest.mark.parametrize("lines", [deep, wide, wide_settings, labels_then_messages], ids=lambda made: made.__name__)
def test_a_tree_of_a_hundred_thousand_entries_works_in_every_way(
    lines: Callable[[], list[Fields]], tmp_path: Path
) -> None:
    assert sys.getrecursionlimit() == 1000
    made = lines()
    path = session_file(tmp_path / "big.jsonl", made)
    session = SessionManager.open(path, setup=Setup(home=tmp_path / "home"))
    index, last = session.index, len(made) - 1
    assert (session.take_notices(), session.get_leaf_id()) == ([], made[-1]["id"])

    on_path = session.get_branch()
    assert [each.id for each in on_path] == (
        [each["id"] for each in made] if lines is deep else ["root", made[-1]["id"]]
    )
    said = [each for each in on_path if each.id == "root" or lines is not wide_settings]
    assert len(session.build_session_context().messages) == len(said)
    assert len(session.request_messages(Reader("p", "a", "m"))) == len(said)

    assert len(descendants(index, 0)) == last
    assert common_ancestor(index, last, last - 1) == (last - 1 if lines is deep else 0)
    assert is_on_path(index, 0, last)
    assert len(tips(index)) == {"deep": 1, "labels_then_messages": COUNT // 2 + 1}.get(lines.__name__, COUNT)
    assert find_interleaving(index) is None

    rows = outline(index, View(last, Filter.ALL))
    assert len(rows) == len(made)
    assert len(rails(rows, len(rows) - 1)) <= 1000
    [root] = session.get_tree()
    assert len(root.children) == len(index.family.children(0))
    assert sum(1 for _ in session.entries()) == len(made)

    fork = session.create_branched_session()
    assert fork.index.ids[: len(on_path)] == [each.id for each in on_path]
    fork.close()
    session.close()


def test_a_compaction_that_refers_to_prompts_all_over_a_long_path_is_read_in_no_time(tmp_path: Path) -> None:
    lines = [
        (assistant if n % 10 else user)(i, p, "x") for n, (i, p) in enumerate(zip(ids(), [None, *ids()], strict=False))
    ]
    prompts = [str(line["id"]) for line in lines[::10]]
    details = {
        "replacement": [*({"entry": prompt} for prompt in prompts), {"summary": True}],
        "earliestRef": prompts[0],
    }
    fields = {"summary": "S", "firstKeptEntryId": "k", "tokensBefore": 1, "details": details}
    path = session_file(tmp_path / "big.jsonl", [*lines, entry("compaction", "k", str(lines[-1]["id"]), **fields)])
    session = SessionManager.open(path, setup=Setup(home=tmp_path / "home"))
    start = time.perf_counter()
    assert len(session.build_context().pairs) == len(prompts) + 1
    assert time.perf_counter() - start < 10  # one walk takes 0.3 s, a walk for each reference took minutes
    session.close()
