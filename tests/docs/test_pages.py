"""What a reader follows in docs/: links lead somewhere, and the notices that sessions.md explains are ones we give."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, FENCE

PAGES = sorted(DOCS.rglob("*.md"))
SOURCE = DOCS.parent / "src" / "coppice"


def links_of(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in link:
            yield link


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in links_of(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def explained_notices() -> list[str]:
    """The first column of the table of notices in sessions.md."""
    section = (DOCS / "sessions.md").read_text(encoding="utf-8").partition("## Notices")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def texts_we_give() -> str:
    """Texts of our source with adjacent literals joined, and the examples of format.md, which are run."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")))
    return re.sub(r'"\n\s+f?"', "", source) + (DOCS / "format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("notice", explained_notices())
def test_a_notice_that_is_explained_is_one_we_give(notice: str) -> None:
    wanted = ".{1,60}?".join(re.escape(piece) for piece in notice.strip("… ").split("…"))
    assert re.search(wanted, texts_we_give()) is not None


def test_there_are_notices_to_look_for() -> None:
    assert len(explained_notices()) >= 15


def test_no_page_has_a_fence_without_a_language() -> None:
    for page in PAGES:
        fences = [line for line in page.read_text(encoding="utf-8").split("\n") if line.startswith(FENCE)]
        assert all(fence != FENCE for fence in fences[::2]), page
