"""The read tool."""

import base64
import os
import unicodedata
from pathlib import Path

import pytest

from coppice.errors import ToolError
from coppice.format.messages import ImageBlock, TextBlock
from coppice.tools.base import ToolResult
from coppice.tools.read import READ
from coppice.tools.truncate import MAX_BYTES
from tests.tools.bench import Bench

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
IMAGES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "image/gif": b"GIF89a\x01\x00",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
}


def numbered(first: int, last: int) -> str:
    return "\n".join(f"line {number}" for number in range(first, last + 1))


async def test_a_text_file_comes_back_as_it_stands(bench: Bench) -> None:
    bench.file("a.txt", "ä\r\n\n\tend")
    assert await bench.result(READ, {"path": "a.txt"}) == ToolResult((TextBlock("ä\r\n\n\tend"),))


async def test_an_empty_file_says_so(bench: Bench) -> None:
    bench.file("a.txt")
    assert await bench.text(READ, {"path": "a.txt"}) == "[a.txt is empty]"


async def test_offset_and_limit_choose_lines_and_the_note_names_the_next_offset(bench: Bench) -> None:
    bench.file("a.txt", numbered(1, 10) + "\n")
    note = "\n\n[Lines 3-4 of 10 in a.txt. Use offset=5 to go on]"
    assert await bench.text(READ, {"path": "a.txt", "offset": "3", "limit": 2}) == numbered(3, 4) + note
    assert await bench.text(READ, {"path": "a.txt", "offset": 9, "limit": 50}) == numbered(9, 10) + "\n"


async def test_more_than_2000_lines_are_cut_with_the_next_offset(bench: Bench) -> None:
    bench.file("a.txt", numbered(1, 2500))
    result = await bench.result(READ, {"path": "a.txt"})
    note = "\n\n[Lines 1-2000 of 2500 in a.txt. Use offset=2001 to go on]"
    assert result.content == (TextBlock(numbered(1, 2000) + note),)
    assert result.details["truncation"]["truncatedBy"] == "lines"
    assert result.details["truncation"]["totalLines"] == 2500
    assert await bench.text(READ, {"path": "a.txt", "offset": 2001}) == numbered(2001, 2500)


async def test_following_the_offsets_gives_the_whole_file(bench: Bench) -> None:
    lines = [f"{number} " + "x" * (number % 200) for number in range(3000)]
    bench.file("a.txt", "\n".join(lines))
    got: list[str] = []
    offset: int | None = 1
    while offset is not None:
        text, _, note = (await bench.text(READ, {"path": "a.txt", "offset": offset})).partition("\n\n[")
        got += text.split("\n")
        offset = int(note.partition("offset=")[2].split(" ")[0]) if note else None
    assert got == lines


async def test_a_single_huge_line_shows_its_beginning_and_how_to_see_more(bench: Bench) -> None:
    bench.file("a.js", "x" * 3_000_000 + "\nsecond\n")
    text = await bench.text(READ, {"path": "a.js"})
    shown, _, note = text.partition("\n\n")
    assert shown == "x" * MAX_BYTES
    assert note == (
        "[Line 1 is 2.9 MB long, only its first 50.0 KB are shown. See more with bash: "
        f"sed -n '1p' FILE | tail -c +{MAX_BYTES + 1} | head -c {MAX_BYTES}. Use offset=2 for the next line]"
    )
    assert await bench.text(READ, {"path": "a.js", "offset": 2}) == "second\n"


@pytest.mark.case("P25")
@pytest.mark.parametrize("before", range(4))
async def test_a_character_across_the_byte_limit_is_not_split(bench: Bench, before: int) -> None:
    bench.file("a.txt", "a" * (MAX_BYTES - before) + "😀" * 2)
    shown = (await bench.text(READ, {"path": "a.txt"})).partition("\n\n")[0]
    assert shown == "a" * (MAX_BYTES - before)


async def test_an_offset_beyond_the_end_names_the_number_of_lines(bench: Bench) -> None:
    bench.file("a.txt", "1\n2\n3\n")
    with pytest.raises(ToolError, match=r"^Offset 4 is beyond the end of a.txt, which has 3 lines$"):
        await bench.result(READ, {"path": "a.txt", "offset": 4})


async def test_bad_utf_8_becomes_replacement_characters_and_a_byte_order_mark_is_left_out(bench: Bench) -> None:
    bench.file("a.txt", b"\xef\xbb\xbfgr\xfc\xdfe \xed\xa0\x80\n")
    assert await bench.text(READ, {"path": "a.txt"}) == "gr\ufffd\ufffde \ufffd\ufffd\ufffd\n"


@pytest.mark.parametrize("mime_type", IMAGES)
async def test_images_are_known_by_their_content_and_come_as_a_block(bench: Bench, mime_type: str) -> None:
    bench.file("picture.txt", IMAGES[mime_type])
    data = base64.b64encode(IMAGES[mime_type]).decode()
    assert (await bench.result(READ, {"path": "picture.txt"})).content == (
        TextBlock(f"Image picture.txt [{mime_type}]"),
        ImageBlock(data, mime_type),
    )


async def test_a_large_image_comes_whole(bench: Bench) -> None:
    content = PNG * 2000
    bench.file("a.png", content)
    block = (await bench.result(READ, {"path": "a.png"})).content[1]
    assert isinstance(block, ImageBlock)
    assert base64.b64decode(block.data) == content


async def test_what_cannot_be_read_is_refused_by_name(bench: Bench) -> None:
    bench.file("program", b"\x7fELF\x02\x00\x00")
    bench.file("dir/x")
    os.mkfifo(bench.cwd / "pipe")
    (bench.cwd / "loop").symlink_to("loop")
    refusals: dict[str, str] = {}
    for path in ("program", "dir", "pipe", "loop", "missing", "", "a\0b", "\ud800", "/dev/zero"):
        with pytest.raises(ToolError) as caught:
            await bench.result(READ, {"path": path})
        refusals[path] = str(caught.value)
    assert refusals == {
        "program": "program is a binary file; it was not read",
        "dir": "dir is a directory; use ls to list it",
        "pipe": "pipe is not a regular file",
        "loop": f"Cannot read loop: {os.strerror(40 if os.uname().sysname == 'Linux' else 62)}",
        "missing": "Cannot read missing: No such file or directory",
        "": "Not a usable path: ''",
        "a\0b": "Not a usable path: 'a\\x00b'",
        "\ud800": "Not a usable path: '\\ud800'",
        "/dev/zero": "/dev/zero is not a regular file",
    }


async def test_paths_are_relative_to_the_session_and_the_home_is_known(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.file("sub/a.txt", "relative")
    (tmp_path / "b.txt").write_text("home")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert await bench.text(READ, {"path": "sub/a.txt"}) == "relative"
    assert await bench.text(READ, {"path": str(bench.cwd / "sub/a.txt")}) == "relative"
    assert await bench.text(READ, {"path": "~/b.txt"}) == "home"


async def test_a_leading_at_sign_is_dropped_only_where_nothing_has_that_name(bench: Bench) -> None:
    bench.file("a.txt", "without")
    bench.file("types/b.txt", "without")
    assert await bench.text(READ, {"path": "@a.txt"}) == "without"
    bench.file("@a.txt", "with")
    assert await bench.text(READ, {"path": "@a.txt"}) == "with"
    bench.file("@types/x")
    with pytest.raises(ToolError, match=r"^Cannot read @types/b.txt: No such file or directory$"):
        await bench.result(READ, {"path": "@types/b.txt"})


async def test_a_name_that_only_looks_the_same_is_found(bench: Bench) -> None:
    bench.file("Screenshot at 9.41\u202fAM.txt", "screenshot")
    bench.file(unicodedata.normalize("NFD", "Capture d\u2019écran.txt"), "capture")
    assert await bench.text(READ, {"path": "Screenshot at 9.41 AM.txt"}) == "screenshot"
    assert await bench.text(READ, {"path": "Capture d'écran.txt"}) == "capture"
