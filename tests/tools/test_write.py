"""The write tool."""

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from coppice.errors import ToolError
from coppice.format.messages import TextBlock
from coppice.tools.base import ToolResult
from coppice.tools.files import exclusive
from coppice.tools.write import WRITE
from tests.plain_user import as_plain_user
from tests.tools.bench import Bench

pytestmark = pytest.mark.anyio


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask_022() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask_022")
async def test_a_new_file_is_made_with_its_parent_directories(bench: Bench) -> None:
    result = await bench.result(WRITE, {"path": "a/b/c.txt", "content": "grün\r\n"})
    assert result == ToolResult((TextBlock("Created a/b/c.txt (7 bytes written)"),), {"bytes": 7, "created": True})
    path = bench.cwd / "a/b/c.txt"
    assert path.read_bytes() == "grün\r\n".encode()
    assert mode_of(path) == 0o644
    assert os.listdir(path.parent) == ["c.txt"]


async def test_an_existing_file_is_replaced_and_keeps_its_mode(bench: Bench) -> None:
    path = bench.file("run.sh", "a much longer content than the new one")
    path.chmod(0o750)
    assert await bench.text(WRITE, {"path": "run.sh", "content": "new"}) == "Replaced run.sh (3 bytes written)"
    assert (path.read_text(), mode_of(path)) == ("new", 0o750)


async def test_the_target_of_a_symbolic_link_is_written_and_the_link_stays(bench: Bench) -> None:
    target = bench.file("real/target.txt", "old")
    link = bench.cwd / "link.txt"
    link.symlink_to("real/target.txt")
    dangling = bench.cwd / "dangling.txt"
    dangling.symlink_to("real/new/made.txt")
    await bench.result(WRITE, {"path": "link.txt", "content": "new"})
    await bench.result(WRITE, {"path": "dangling.txt", "content": "made"})
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert target.read_text() == "new"
    assert (bench.cwd / "real/new/made.txt").read_text() == "made"


async def test_lone_surrogates_become_replacement_characters_in_the_file(bench: Bench) -> None:
    await bench.result(WRITE, {"path": "a.txt", "content": "\ud83d\ude00 \ud800"})
    assert (bench.cwd / "a.txt").read_text("utf-8") == "😀 \ufffd"


async def test_what_cannot_be_written_is_refused_and_left_alone(bench: Bench) -> None:
    bench.file("file", "content")
    (bench.cwd / "dir").mkdir()
    os.mkfifo(bench.cwd / "pipe")
    refusals: list[str] = []
    for path in ("dir", "pipe", "file/below.txt"):
        with pytest.raises(ToolError) as caught:
            await bench.result(WRITE, {"path": path, "content": "x"})
        refusals.append(str(caught.value))
    assert refusals == [
        "dir is a directory",
        "pipe is not a regular file",
        "Cannot write file/below.txt: Not a directory",
    ]
    assert sorted(os.listdir(bench.cwd)) == ["dir", "file", "pipe"]


async def test_a_write_protected_file_is_refused(bench: Bench) -> None:
    path = bench.file("a.txt", "old")
    path.chmod(0o444)
    with (
        as_plain_user(path, path.parent),
        pytest.raises(ToolError, match=r"^Cannot write a.txt: the file is write-protected$"),
    ):
        await bench.result(WRITE, {"path": "a.txt", "content": "x"})
    assert path.read_text() == "old"


async def test_a_file_in_a_directory_that_takes_no_new_files_is_written_in_place(bench: Bench) -> None:
    path = bench.file("dir/a.txt", "a longer old content")
    path.parent.chmod(0o555)
    try:
        with as_plain_user(path, path.parent):
            await bench.result(WRITE, {"path": "dir/a.txt", "content": "new"})
        assert path.read_text() == "new"
    finally:
        path.parent.chmod(0o755)


async def test_parallel_writes_of_one_file_leave_one_of_the_contents(bench: Bench) -> None:
    contents = [str(number) * 100_000 for number in range(8)]
    await asyncio.gather(*(bench.result(WRITE, {"path": "a.txt", "content": content}) for content in contents))
    assert (bench.cwd / "a.txt").read_text() in contents
    assert os.listdir(bench.cwd) == ["a.txt"]


async def test_a_write_cancelled_while_it_waits_for_the_file_writes_nothing(bench: Bench) -> None:
    path = bench.file("a.txt", "old")
    holds, release = threading.Event(), threading.Event()

    def hold() -> None:
        with exclusive(Path(os.path.realpath(path))):
            holds.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    await asyncio.to_thread(holds.wait)
    writing = asyncio.ensure_future(bench.result(WRITE, {"path": "a.txt", "content": "new"}))
    await asyncio.sleep(0)
    writing.cancel()
    asyncio.get_running_loop().call_later(0.05, release.set)
    with pytest.raises(asyncio.CancelledError):
        await writing
    holder.join()
    assert path.read_text() == "old"
