"""The grep tool, with ripgrep and without: the same tests for both."""

import asyncio
import os
from pathlib import Path

import pytest

from coppice.errors import ToolError
from coppice.format.messages import JsonObject, TextBlock
from coppice.tools.base import ToolResult
from coppice.tools.grep import GREP
from tests.conftest import NeedsProgram
from tests.tools.bench import Bench

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True, params=["plain Python", "ripgrep"])
def searcher(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, needs_program: NeedsProgram
) -> str:
    """Which program searches; PATH holds nothing else."""
    programs = tmp_path / "programs"
    programs.mkdir()
    if request.param == "ripgrep":
        (programs / "rg").symlink_to(os.path.realpath(needs_program("rg")))
    monkeypatch.setenv("PATH", str(programs))
    return str(request.param)


async def rows(bench: Bench, **arguments: object) -> list[str]:
    return (await bench.text(GREP, arguments)).split("\n")


async def test_matches_come_as_path_line_and_text_in_the_order_of_paths(bench: Bench) -> None:
    bench.file("b.py", "import os\nimport re\n")
    bench.file("a/c.py", "x = 1\r\n    import sys\r\n")
    bench.file(".hidden", "import this")
    bench.file("z", "nothing")
    assert await bench.result(GREP, {"pattern": "import"}) == ToolResult(
        (TextBlock(".hidden:1: import this\na/c.py:2:     import sys\nb.py:1: import os\nb.py:2: import re"),)
    )
    assert await rows(bench, pattern="sys$") == ["a/c.py:2:     import sys"]
    assert await rows(bench, pattern="import", path="a") == ["c.py:2:     import sys"]
    assert await rows(bench, pattern="import", path="b.py") == ["b.py:1: import os", "b.py:2: import re"]


async def test_no_match_says_so(bench: Bench) -> None:
    bench.file("a", "text")
    assert await bench.result(GREP, {"pattern": "nothing"}) == ToolResult((TextBlock("No matches found"),))


async def test_the_pattern_is_a_regular_expression_unless_it_is_literal(bench: Bench) -> None:
    bench.file("a", "f(x)\nfx\nF(X)\n-e\n")
    assert await rows(bench, pattern="f.?x") == ["a:1: f(x)", "a:2: fx"]
    assert await rows(bench, pattern="f(x)", literal=True) == ["a:1: f(x)"]
    assert await rows(bench, pattern="f(x)", literal="true", ignoreCase=True) == ["a:1: f(x)", "a:3: F(X)"]
    assert await rows(bench, pattern="-e") == ["a:4: -e"]


async def test_a_glob_chooses_files_by_name_or_by_path(bench: Bench) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "src/e.min.ts"):
        bench.file(name, "hit")
    assert await rows(bench, pattern="hit", glob="*.py") == ["a.py:1: hit", "src/b.py:1: hit", "src/deep/c.py:1: hit"]
    assert await rows(bench, pattern="hit", glob="src/*.py") == ["src/b.py:1: hit"]
    assert await rows(bench, pattern="hit", glob="./src/**/*.py") == ["src/b.py:1: hit", "src/deep/c.py:1: hit"]
    assert await rows(bench, pattern="hit", glob="*.{py,ts}", path="src/deep") == ["c.py:1: hit"]
    assert await rows(bench, pattern="hit", glob="!*.py") == ["src/d.ts:1: hit", "src/e.min.ts:1: hit"]


async def test_context_lines_stand_around_each_match_once(bench: Bench) -> None:
    bench.file("a", "1\n2\nhit 3\n4\nhit 5\n6\n7\n8\nhit 9")
    assert await rows(bench, pattern="hit", context=1) == [
        "a-2- 2",
        "a:3: hit 3",
        "a-4- 4",
        "a:5: hit 5",
        "a-6- 6",
        "a-8- 8",
        "a:9: hit 9",
    ]


async def test_at_the_limit_the_rest_is_named_only_where_there_is_one(bench: Bench) -> None:
    bench.file("a", "hit\n" * 5)
    note = "[3 matches shown, there are more. Use limit=6 or a narrower pattern]"
    result = await bench.result(GREP, {"pattern": "hit", "limit": 3})
    assert result == ToolResult((TextBlock(f"a:1: hit\na:2: hit\na:3: hit\n\n{note}"),), {"matchLimitReached": 3})
    assert len(await rows(bench, pattern="hit", limit=5)) == 5
    assert await rows(bench, pattern="hit", limit=4, context=1) == [
        "a:1: hit",
        "a:2: hit",
        "a:3: hit",
        "a:4: hit",
        "a-5- hit",
        "",
        "[4 matches shown, there are more. Use limit=8 or a narrower pattern]",
    ]


async def test_a_hundred_matches_are_shown_unless_limit_says_otherwise(bench: Bench) -> None:
    bench.file("a", "hit\n" * 150)
    assert len([row for row in await rows(bench, pattern="hit") if row.startswith("a:")]) == 100


async def test_long_lines_are_cut_and_said_to_be(bench: Bench) -> None:
    bench.file("a.min.js", "x" * 400_000 + "hit\nhit" + "y" * 3_000_000 + "\nhit")
    text = await bench.text(GREP, {"pattern": "^hit"})
    assert text == (
        f"a.min.js:2: hit{'y' * 497}... [line cut]\na.min.js:3: hit\n\n"
        "[Lines longer than 500 characters are cut; use read to see them whole]"
    )


async def test_a_result_beyond_50_kb_is_cut_at_a_line(bench: Bench) -> None:
    bench.file("a", ("hit " + "z" * 490 + "\n") * 400)
    result = await bench.result(GREP, {"pattern": "hit", "limit": 300})
    assert isinstance(result.content[0], TextBlock)
    shown, _, note = result.content[0].text.partition("\n\n")
    assert len(shown) <= 50 * 1024
    assert all(len(row) > 490 for row in shown.split("\n"))
    assert note == "[Cut at 50.0 KB; ask for less to see all]"
    assert result.details["truncation"]["truncatedBy"] == "bytes"


async def test_what_gitignore_leaves_out_is_not_searched(bench: Bench) -> None:
    bench.file(".gitignore", "build/\n*.log\n!keep.log\n/only-here\n# comment\n\n")
    bench.file("sub/.gitignore", "secret.*\n")
    names = (
        "build/a",
        "a.log",
        "keep.log",
        "only-here",
        "sub/only-here",
        "sub/secret.txt",
        "secret.txt",
        ".git/config",
    )
    for name in names:
        bench.file(name, "hit")
    assert await rows(bench, pattern="hit") == ["keep.log:1: hit", "secret.txt:1: hit", "sub/only-here:1: hit"]
    assert await rows(bench, pattern="hit", path="sub") == ["only-here:1: hit"]


async def test_binary_files_and_symbolic_links_are_passed_over(bench: Bench, tmp_path: Path) -> None:
    bench.file("binary", b"hit\0hit\n")
    bench.file("text", b"hit caf\xe9\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("hit")
    (bench.cwd / "link").symlink_to(tmp_path / "outside")
    assert await rows(bench, pattern="hit") == ["text:1: hit caf\ufffd"]


async def test_names_with_newlines_colons_and_spaces_stay_one_row(bench: Bench) -> None:
    bench.file("a\nb:1: c d", "hit")
    assert await rows(bench, pattern="hit") == ["a\\x0ab:1: c d:1: hit"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"pattern": "("}, "Not a usable regular expression|regex parse error"),
        ({"pattern": ""}, "^The pattern is empty or holds a NUL character$"),
        ({"pattern": "a\0"}, "^The pattern is empty or holds a NUL character$"),
        ({"pattern": "a", "path": "missing"}, "^missing does not exist$"),
        ({"pattern": "a", "path": "/dev/null"}, "^/dev/null is neither a directory nor a regular file$"),
    ],
)
async def test_what_cannot_be_searched_is_refused(bench: Bench, arguments: JsonObject, reason: str) -> None:
    bench.file("a", "a")
    with pytest.raises(ToolError, match=reason):
        await bench.result(GREP, arguments)


async def test_a_cancelled_search_ends(bench: Bench) -> None:
    for number in range(50):
        bench.file(f"{number}/a", "text\n" * 10_000)
    call = asyncio.ensure_future(bench.result(GREP, {"pattern": "nothing"}))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(call), 20)


@pytest.mark.case("P16")
async def test_a_pattern_that_runs_for_ever_can_be_cancelled_and_does_not_stop_the_event_loop(
    bench: Bench, searcher: str
) -> None:
    bench.file("a", "a" * 60 + "!")
    if searcher == "ripgrep":  # which never takes that long
        assert await rows(bench, pattern="^(a+)+$") == ["No matches found"]
        return
    call = asyncio.ensure_future(bench.result(GREP, {"pattern": "^(a+)+$"}))
    await asyncio.wait({call}, timeout=0.5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, 20)


async def test_modules_in_the_directory_searched_are_not_imported(bench: Bench) -> None:
    for name in ("msgspec.py", "re.py", "coppice/__init__.py", "sitecustomize.py"):
        bench.file(name, "from pathlib import Path\nPath(__file__ + '.ran').touch()\nraise SystemExit(1)\n")
    assert len(await rows(bench, pattern="raise")) == 4
    assert list(bench.cwd.rglob("*.ran")) == []
