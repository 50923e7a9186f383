"""The find and ls tools, and the glob patterns."""

import os
import re
from pathlib import Path

import pytest

from coppice.errors import ToolError
from coppice.format.messages import TextBlock
from coppice.tools.base import ToolResult
from coppice.tools.find import FIND
from coppice.tools.glob import path_matcher, translated
from coppice.tools.ls import LS
from tests.tools.bench import Bench


async def found(bench: Bench, pattern: str, path: str | None = None) -> list[str]:
    return (await bench.text(FIND, {"pattern": pattern, "path": path})).split("\n")


@pytest.mark.anyio
async def test_find_matches_names_at_any_depth_and_paths_from_the_directory(bench: Bench) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.ts", ".github/e.py", "src.py/f"):
        bench.file(name)
    assert await found(bench, "*.py") == [".github/e.py", "a.py", "src/b.py", "src/deep/c.py", "src.py/"]
    assert await found(bench, "src/*.py") == ["src/b.py"]
    assert await found(bench, "./src/**/*.{py,ts}") == ["src/b.py", "src/d.ts", "src/deep/c.py"]
    assert await found(bench, "*", "src") == ["b.py", "d.ts", "deep/", "deep/c.py"]
    assert await found(bench, "deep/") == ["src/deep/"]
    assert await found(bench, "*.rs") == ["No files found"]


@pytest.mark.anyio
async def test_find_leaves_out_what_gitignore_does_also_from_above_in_a_repository(bench: Bench) -> None:
    bench.file(".git/HEAD")
    bench.file(".gitignore", "node_modules\n/sub/gone\nx{1,2}\n")
    for name in ("node_modules/a", "sub/node_modules/b", "sub/gone", "sub/kept", "sub/x1", "sub/x{1,2}"):
        bench.file(name)
    assert await found(bench, "*") == [".gitignore", "sub/", "sub/kept", "sub/x1"]
    assert await found(bench, "*", "sub") == ["kept", "x1"]


@pytest.mark.anyio
async def test_find_lists_symbolic_links_and_does_not_follow_them(bench: Bench) -> None:
    bench.file("dir/a")
    (bench.cwd / "link").symlink_to("dir")
    (bench.cwd / "dir/up").symlink_to("..")
    assert await found(bench, "*") == ["dir/", "dir/a", "dir/up", "link"]


@pytest.mark.anyio
async def test_find_names_the_limit_where_there_is_more(bench: Bench) -> None:
    for number in range(5):
        bench.file(f"{number}.txt")
    assert await bench.result(FIND, {"pattern": "*.txt", "limit": 2}) == ToolResult(
        (TextBlock("0.txt\n1.txt\n\n[2 paths shown, there are more. Use limit=4 or a narrower pattern]"),),
        {"resultLimitReached": 2},
    )
    assert await bench.text(FIND, {"pattern": "*.txt", "limit": 5}) == "0.txt\n1.txt\n2.txt\n3.txt\n4.txt"


@pytest.mark.anyio
async def test_find_refuses_what_it_cannot_search(bench: Bench) -> None:
    bench.file("file")
    for arguments, reason in (
        ({"pattern": ""}, "The pattern is empty; use * for everything"),
        ({"pattern": "*", "path": "file"}, "file is not a directory"),
        ({"pattern": "*", "path": "missing"}, "missing does not exist"),
    ):
        with pytest.raises(ToolError) as caught:
            await bench.result(FIND, arguments)
        assert str(caught.value) == reason


@pytest.mark.anyio
async def test_ls_sorts_without_regard_to_case_and_marks_directories(bench: Bench) -> None:
    for name in ("b.txt", "A.txt", ".dot", "c/x", "B.txt"):
        bench.file(name)
    (bench.cwd / "broken").symlink_to("nowhere")
    (bench.cwd / "to-c").symlink_to("c")
    assert await bench.result(LS, {}) == ToolResult((TextBlock(".dot\nA.txt\nB.txt\nb.txt\nbroken\nc/\nto-c/"),))
    assert await bench.text(LS, {"path": "c"}) == "x"


@pytest.mark.anyio
async def test_ls_names_the_limit_where_there_is_more(bench: Bench) -> None:
    for number in range(600):
        bench.file(f"{number:03}")
    text = await bench.text(LS, {})
    assert text.count("\n") == 501
    assert text.endswith("\n499\n\n[500 of 600 names shown. Use limit=600 for all]")
    assert (await bench.text(LS, {"limit": "600"})).count("\n") == 599


@pytest.mark.anyio
async def test_ls_tells_an_empty_directory_and_refuses_others(bench: Bench, tmp_path: Path) -> None:
    assert await bench.text(LS, {}) == "(empty directory)"
    bench.file("file")
    for path, reason in (("file", "file is not a directory"), ("missing", "missing does not exist")):
        with pytest.raises(ToolError, match=f"^{reason}$"):
            await bench.result(LS, {"path": path})


@pytest.mark.anyio
@pytest.mark.skipif(os.uname().sysname == "Darwin", reason="the file system takes UTF-8 names only")
async def test_names_that_are_no_utf_8_hold_no_surrogates(bench: Bench) -> None:
    os.mkdir(os.fsencode(bench.cwd) + b"/caf\xe9")
    assert await bench.text(LS, {}) == "caf\ufffd/"
    assert await found(bench, "*") == ["caf\ufffd/"]


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "py"]),
        ("a?c", ["abc", "x/abc"], ["a/c", "ac"]),
        ("[a-c]*", ["b", "x/cd"], ["d", "x/d"]),
        ("[!a-c]", ["d"], ["a", "ab"]),
        ("[]]", ["]"], ["["]),
        ("x/**", ["x/a", "x/a/b"], ["x", "y/x/a"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["ba", "x/ba"]),
        ("x/**/a", ["x/a", "x/y/z/a"], ["xa", "a"]),
        ("**", ["a", "a/b"], []),
        ("/a/*", ["a/b"], ["x/a/b", "a/b/c"]),
        ("{a,b*}.{c,d}", ["a.c", "b1.d"], ["c.c"]),
        ("{a,{b,c}}", ["a", "b", "c"], ["d"]),
        (r"\*", ["*"], ["a"]),
        ("a+(b).c|d^$", ["a+(b).c|d^$"], ["aab.c"]),
        ("a,b}", ["a,b}"], ["a"]),
        ("a[b", ["a[b"], ["ab"]),
        ("a\nb*", ["a\nb\nc"], ["a"]),
    ],
)
def test_glob_patterns(glob: str, matching: list[str], others: list[str]) -> None:
    matcher = path_matcher(glob)
    assert [path for path in (*matching, *others) if matcher.fullmatch(path)] == matching


def test_every_text_is_a_glob_or_refused() -> None:
    for glob in ("{", "[z-a]", "[", "\\", "{a", "[[]", "[^", "***", "a**b"):
        try:
            re.compile(translated(glob))
            path_matcher(glob)
        except (ToolError, re.error):
            assert glob == "[z-a]"
