"""The edit tool."""

import asyncio
import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.errors import InvalidArguments, ToolError
from coppice.format.messages import JsonObject, TextBlock
from coppice.tools.base import ToolResult
from coppice.tools.diff import Diff, diff_of
from coppice.tools.edit import EDIT
from coppice.tools.replacement import Edit, edited
from tests.tools.bench import Bench

TEN = "".join(f"line {number}\n" for number in range(1, 11))


def edits(*pairs: tuple[str, str]) -> JsonObject:
    return {"path": "a.txt", "edits": [{"oldText": old, "newText": new} for old, new in pairs]}


async def refusal(bench: Bench, arguments: JsonObject) -> str:
    with pytest.raises(ToolError) as caught:
        await bench.result(EDIT, arguments)
    return str(caught.value)


@pytest.mark.anyio
async def test_an_edit_replaces_the_text_and_tells_what_changed(bench: Bench) -> None:
    path = bench.file("a.txt", TEN)
    path.chmod(0o755)
    result = await bench.result(EDIT, edits(("line 6\n", "line six\nand more\n")))
    assert result == ToolResult(
        (TextBlock("Edited a.txt: 1 replacement, first changed line 6"),),
        {
            "diff": "    ...\n  2 line 2\n  3 line 3\n  4 line 4\n  5 line 5\n- 6 line 6\n+ 6 line six\n+ 7 and more\n"
            "  8 line 7\n  9 line 8\n 10 line 9\n 11 line 10",
            "firstChangedLine": 6,
        },
    )
    assert path.read_text() == TEN.replace("line 6\n", "line six\nand more\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.anyio
async def test_several_edits_are_matched_against_the_file_as_it_was(bench: Bench) -> None:
    path = bench.file("a.txt", "one two three")
    text = await bench.text(EDIT, edits(("three", "one"), ("one", "two"), ("two", "three")))
    assert text == "Edited a.txt: 3 replacements, first changed line 1"
    assert path.read_text() == "two three one"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.txt", "oldText": "old", "newText": "new"},
        {"path": "a.txt", "edits": {"oldText": "old", "newText": "new"}},
        {"path": "a.txt", "edits": json.dumps([{"oldText": "old", "newText": "new"}])},
        {"path": "a.txt", "edits": json.dumps({"oldText": "old", "newText": "new"})},
        {"path": "a.txt", "edits": [], "oldText": "old", "newText": "new"},
        {"path": "a.txt", "edits": None, "oldText": "old", "newText": "new"},
    ],
)
async def test_the_forms_models_send_instead_of_a_list_are_understood(bench: Bench, arguments: JsonObject) -> None:
    path = bench.file("a.txt", "an old text")
    await bench.result(EDIT, arguments)
    assert path.read_text() == "an new text"


@pytest.mark.anyio
async def test_arguments_that_are_no_edits_are_refused(bench: Bench) -> None:
    bench.file("a.txt", "text")
    for arguments in ({"path": "a.txt"}, {"path": "a.txt", "edits": "not json"}, {"path": "a.txt", "oldText": "text"}):
        with pytest.raises(
            InvalidArguments, match=r"^Invalid arguments for edit: .*edits \(array of \{oldText, newText"
        ):
            await bench.result(EDIT, arguments)


@pytest.mark.anyio
async def test_a_refused_edit_says_why_and_changes_nothing(bench: Bench) -> None:
    content = "start\n  indented\nab\nab\nab aaa\n"
    path = bench.file("a.txt", content)
    assert [
        await refusal(bench, edits(("missing", "x"))),
        await refusal(bench, edits(("start\nindented", "x"))),
        await refusal(bench, edits(("ab", "x"))),
        await refusal(bench, edits(("aa", "x"))),
        await refusal(bench, edits(("start\n  ind", "x"), ("  indented", "y"))),
        await refusal(bench, edits(("start", "x"), ("start", "y"))),
        await refusal(bench, edits(("start", "start"))),
        await refusal(bench, edits(("", "x"))),
        await refusal(bench, edits(("start", "x"), ("nowhere", "y"))),
        await refusal(bench, {"path": "b.txt", "oldText": "a", "newText": "b"}),
        await refusal(bench, {"path": ".", "oldText": "a", "newText": "b"}),
    ] == [
        "oldText was not found in a.txt. It must match exactly, white space and line breaks included; read the file again",
        "oldText was not found in a.txt. It must match exactly; line 1 differs from it in white space only",
        "oldText occurs 3 times in a.txt (lines 3, 4, 5). Add surrounding text so that it occurs once",
        "oldText occurs 2 times in a.txt (lines 5, 5). Add surrounding text so that it occurs once",
        "Two edits of a.txt overlap at line 2. Merge them into one edit",
        "Two edits of a.txt overlap at line 1. Merge them into one edit",
        "The edits change nothing in a.txt: old and new text are the same",
        "oldText is empty; give the text of a.txt that is to be replaced",
        "oldText of edit 2 was not found in a.txt. It must match exactly, white space and line breaks included; "
        "read the file again",
        "b.txt does not exist; use write to create it",
        ". is a directory",
    ]
    assert path.read_text() == content
    assert os.listdir(bench.cwd) == ["a.txt"]


@pytest.mark.anyio
async def test_windows_line_endings_and_the_byte_order_mark_stay(bench: Bench) -> None:
    path = bench.file("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    await bench.result(EDIT, edits(("one\ntwo\n", "1\n2\n2b\n"), ("three", "3")))
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\n3\r\n"


@pytest.mark.anyio
async def test_in_a_file_of_mixed_line_endings_each_place_keeps_its_own(bench: Bench) -> None:
    path = bench.file("a.txt", b"one\r\ntwo\nthree\r\nfour\rfive")
    await bench.result(EDIT, edits(("one", "1\n1"), ("two\nthree", "2\n3"), ("five", "5\n5")))
    assert path.read_bytes() == b"1\r\n1\r\n2\n3\r\nfour\r5\r\n5"


@pytest.mark.anyio
async def test_bytes_that_are_no_utf_8_stay_as_they_are(bench: Bench) -> None:
    path = bench.file("a.txt", b"caf\xe9 old\n\xff\xfe")
    result = await bench.result(EDIT, edits(("old", "\ud800new")))
    assert path.read_bytes() == b"caf\xe9 \xef\xbf\xbdnew\n\xff\xfe"
    json.dumps(result.details, ensure_ascii=False).encode("utf-8")


@pytest.mark.anyio
async def test_the_target_of_a_symbolic_link_is_edited_and_the_link_stays(bench: Bench) -> None:
    target = bench.file("target.txt", "old")
    (bench.cwd / "a.txt").symlink_to("target.txt")
    await bench.result(EDIT, edits(("old", "new")))
    assert (bench.cwd / "a.txt").is_symlink()
    assert target.read_text() == "new"


@pytest.mark.anyio
async def test_parallel_edits_of_one_file_under_several_names_are_all_kept(bench: Bench) -> None:
    path = bench.file("a.txt", "".join(f"<{number}>\n" for number in range(40)))
    (bench.cwd / "link.txt").symlink_to("a.txt")
    names = ("a.txt", "./a.txt", "link.txt", str(path))
    await asyncio.gather(
        *(
            bench.result(EDIT, {"path": names[number % 4], "oldText": f"<{number}>", "newText": f"[{number}]"})
            for number in range(40)
        )
    )
    assert path.read_text() == "".join(f"[{number}]\n" for number in range(40))


def test_a_diff_shows_four_lines_around_each_change_and_counts_in_the_new_text() -> None:
    before = "".join(f"{number}\n" for number in range(1, 31))
    after = before.replace("\n10\n", "\nten\nten b\n").replace("\n25\n", "\n")
    assert diff_of(before, after) == Diff(
        "    ...\n"
        "  6 6\n  7 7\n  8 8\n  9 9\n-10 10\n+10 ten\n+11 ten b\n 12 11\n 13 12\n 14 13\n 15 14\n"
        "    ...\n"
        " 22 21\n 23 22\n 24 23\n 25 24\n-25 25\n 26 26\n 27 27\n 28 28\n 29 29\n"
        "    ...",
        10,
    )


def test_a_diff_of_very_large_changes_is_made_in_time() -> None:
    before, after = "a\nb\n" * 50_000, "b\nc\n" * 50_000
    assert diff_of(before, after).text.count("\n") == 199_999


@given(st.text("ab\n\r", max_size=40), st.integers(0, 40), st.integers(0, 6), st.text("xy\n", max_size=5))
def test_an_edit_changes_the_place_it_names_and_no_byte_elsewhere(text: str, start: int, size: int, new: str) -> None:
    old = text[start : start + size]
    try:
        result = edited(text, [Edit(old, new)], "a.txt")
    except ToolError:
        return
    plain, plain_old = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    place = plain.index(plain_old)
    before, after = plain[:place], plain[place + len(plain_old) :]
    assert result.after_lf == before + new + after
    assert result.text in {
        text[:i] + put_in + text[j:]
        for i in range(len(text) + 1)
        for j in range(i, len(text) + 1)
        for put_in in (new, new.replace("\n", "\r\n"))
        if text[:i].replace("\r\n", "\n") == before and text[j:].replace("\r\n", "\n") == after
    }
