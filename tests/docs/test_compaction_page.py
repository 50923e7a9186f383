"""docs/compaction.md: its settings are ones we take, with these defaults, and its commands are in the table."""

import json
import re

import msgspec
import pytest

from coppice.app.commands import find_command
from coppice.app.settings import Settings
from coppice.compaction.settings import CompactionSettings, limits_for
from tests.docs.blocks import DOCS, blocks_of

PAGE = DOCS / "compaction.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its first two lines."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_every_setting_is_explained_with_its_default() -> None:
    told = {cells[0].strip("`"): json.loads(cells[1].strip("`")) for cells in rows("Settings")}
    assert told == msgspec.to_builtins(CompactionSettings())


def test_the_example_of_settings_is_taken() -> None:
    (example,) = [block for block in blocks_of(PAGE) if block.language == "json"]
    settings = msgspec.json.decode(example.text, type=Settings).compaction
    assert settings.models["openai/my-local-model"].context_window == 32_768


def test_the_numbers_of_the_small_window_are_right() -> None:
    limits = limits_for(CompactionSettings(), "a/b", 32_768)
    assert (limits.reserve, 32_768 - limits.reserve + 1, limits.keep, limits.user_tokens(20_000)) == (
        8_192,
        24_577,
        12_288,
        12_288,
    )


@pytest.mark.parametrize("typed", [cells[0].strip("`") for cells in rows("Commands")])
def test_every_command_of_the_page_is_one(typed: str) -> None:
    assert re.match(r"/(compact|tree) ?", typed)
    assert find_command(typed) is not None
