"""Runs docs/embedding.md from top to bottom as one program; a ``text`` block is what the Python before it printed."""

import contextlib
import io
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, Block, blocks_of

PAGE = DOCS / "embedding.md"


def run(block: Block, names: dict[str, object]) -> str:
    """Run a Python block in the names of those before it; what it printed. Errors name the page's own line."""
    printed = io.StringIO()
    code = compile("\n" * block.line + block.text, str(PAGE), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def test_the_page_runs_from_top_to_bottom_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPPICE_HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    names: dict[str, object] = {"__name__": "embedding"}
    printed: list[tuple[int, str]] = []
    said: list[tuple[int, str]] = []
    for block in blocks_of(PAGE):
        if block.language == "python":
            printed.append((block.line, run(block, names)))
        else:
            said.append((printed[-1][0], block.text))
    assert said == [(line, text) for line, text in printed if text]


def test_every_fence_of_the_page_is_python_or_what_it_prints() -> None:
    assert {block.language for block in blocks_of(PAGE)} == {"python", "text"}
    assert all(not block.options for block in blocks_of(PAGE))
