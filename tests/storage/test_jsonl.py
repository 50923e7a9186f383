"""A log in a file: it only grows, whoever else writes to it and whatever happens to it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.errors import StorageFailure
from coppice.storage import jsonl
from coppice.storage.jsonl import JsonlLog, Span, write_file
from coppice.storage.log import Stored, TailMoved
from coppice.storage.memory import MemoryLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "s.jsonl"
    made.write_bytes(b"one\ntwo\n")
    return made


@pytest.fixture
def log(path: Path) -> Iterator[JsonlLog]:
    opened = JsonlLog.open(path, writable=True)
    yield opened
    opened.close()


def lines_of(log: JsonlLog) -> list[tuple[int, int, bytes]]:
    """Number, offset and bytes of every line read."""
    found: list[tuple[int, int, bytes]] = []
    for batch in log.read_tail():
        found += [(batch.first_number + at, batch.offsets[at], line) for at, line in enumerate(batch.lines)]
    return found


def test_lines_are_read_with_their_numbers_and_places(log: JsonlLog) -> None:
    assert lines_of(log) == [(1, 0, b"one"), (2, 4, b"two")]
    assert lines_of(log) == []
    assert log.append([b"three\n", b"four\n"]) == [Stored(8, 5, 3), Stored(14, 4, 4)]
    assert lines_of(log) == []
    assert log.read([(14, 4), (0, 3), (8, 5)]) == [b"four", b"one", b"three"]


@given(
    lines=st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), max_size=20),
    torn=st.booleans(),
    chunk=st.integers(1, 50),
)
def test_lines_are_the_same_in_chunks_of_any_size(
    lines: list[bytes], torn: bool, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "s.jsonl"
    data = b"".join(line + b"\n" for line in lines)
    data = data[:-1] if torn and lines and lines[-1] else data
    path.write_bytes(data)
    log = JsonlLog.open(path, writable=True, sync=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "CHUNK_BYTES", chunk)
        found = lines_of(log)
    assert [(number, line) for number, _, line in found] == list(enumerate(lines, 1))
    assert log.read([(offset, len(line)) for _, offset, line in found]) == lines
    [stored] = log.append([b"next\n"])
    assert path.read_bytes() == b"".join(line + b"\n" for line in [*lines, b"next"])
    assert (stored.number, path.read_bytes()[stored.offset : stored.offset + stored.size]) == (len(lines) + 1, b"next")
    log.close()


def test_a_fragment_at_the_end_is_closed_before_the_next_line_whoever_writes_it(path: Path) -> None:
    path.write_bytes(b"one\ntw")
    first, second = JsonlLog.open(path, writable=True), JsonlLog.open(path, writable=True)
    assert lines_of(first) == lines_of(second) == [(1, 0, b"one"), (2, 4, b"tw")]
    assert first.append([b"three\n"]) == [Stored(7, 5, 3)]
    with pytest.raises(TailMoved):
        second.append([b"four\n"])
    assert lines_of(second) == [(3, 7, b"three")]
    assert second.append([b"four\n"]) == [Stored(13, 4, 4)]
    assert path.read_bytes() == b"one\ntw\nthree\nfour\n"
    first.close()
    second.close()


def test_a_lone_newline_that_somebody_else_wrote_does_not_hold_up_an_append(path: Path) -> None:
    path.write_bytes(b"one\ntw")
    log = JsonlLog.open(path, writable=True)
    lines_of(log)
    with path.open("ab") as other:
        other.write(b"\n")
    for _ in range(3):
        try:
            stored = log.append([b"three\n"])
            break
        except TailMoved:
            lines_of(log)
    assert path.read_bytes().startswith(b"one\ntw\n")
    assert path.read_bytes().endswith(b"three\n")
    assert log.read([(stored[0].offset, stored[0].size)]) == [b"three"]
    log.close()


def test_nothing_is_written_over_what_somebody_else_appended(log: JsonlLog, path: Path) -> None:
    lines_of(log)
    with path.open("ab") as other:
        other.write(b"theirs\n")
    with pytest.raises(TailMoved):
        log.append([b"ours\n"])
    assert path.read_bytes() == b"one\ntwo\ntheirs\n"


def test_a_file_that_something_else_shortened_is_an_error_and_nothing_is_written(log: JsonlLog, path: Path) -> None:
    lines_of(log)
    os.truncate(path, 5)
    with pytest.raises(TailMoved):
        log.append([b"three\n"])
    with pytest.raises(StorageFailure, match="ends at byte 5 now; something else shortened it"):
        lines_of(log)
    with pytest.raises(StorageFailure, match="shortened"):
        log.read([(4, 3)])
    assert path.read_bytes() == b"one\nt"


@pytest.mark.case("P02")
def test_a_file_deleted_while_in_use_is_written_anew_complete(log: JsonlLog, path: Path) -> None:
    lines_of(log)
    path.unlink()
    assert log.append([b"three\n"]) == [Stored(8, 5, 3)]
    assert (path.read_bytes(), path.stat().st_mode & 0o777, log.births) == (b"one\ntwo\nthree\n", 0o600, 1)
    log.append([b"four\n"])
    assert (path.read_bytes(), log.births) == (b"one\ntwo\nthree\nfour\n", 1)


@pytest.mark.case("P02")
def test_a_file_that_took_the_place_of_ours_is_not_touched(log: JsonlLog, path: Path) -> None:
    lines_of(log)
    other = path.with_name("other")
    other.write_bytes(b"something else")
    os.replace(other, path)
    with pytest.raises(StorageFailure, match="another file took its place"):
        log.append([b"three\n"])
    assert path.read_bytes() == b"something else"


@pytest.mark.case("P02")
def test_a_file_deleted_with_its_directory_is_a_loud_error(log: JsonlLog, path: Path) -> None:
    lines_of(log)
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(StorageFailure, match="was deleted and cannot be written anew"):
        log.append([b"three\n"])


def test_a_failed_sync_means_not_stored(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    lines_of(log)

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync" if hasattr(os, "fdatasync") else "fsync", fail)
    with pytest.raises(StorageFailure, match="not stored: the sync failed: Input/output error"):
        log.append([b"three\n"])
    monkeypatch.undo()
    with pytest.raises(TailMoved):
        log.append([b"four\n"])
    assert lines_of(log) == [(3, 8, b"three")]
    assert log.append([b"four\n"]) == [Stored(14, 4, 4)]


def test_a_log_opened_to_read_writes_nothing(path: Path) -> None:
    log = JsonlLog.open(path, writable=False)
    lines_of(log)
    with pytest.raises(StorageFailure, match="not stored"):
        log.append([b"three\n"])
    log.close()
    log.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_places_far_apart_and_close_together_are_read_in_the_order_asked_for(path: Path) -> None:
    lines = [bytes([65 + n % 26]) * (n * 37 % 30_000) for n in range(200)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    log = JsonlLog.open(path, writable=False)
    places = [(offset, len(line)) for _, offset, line in lines_of(log)]
    order = sorted(range(200), key=lambda n: n * 7919 % 200)
    assert log.read([places[n] for n in order]) == [lines[n] for n in order]
    assert log.read([]) == []
    log.close()


# --- new files -----------------------------------------------------------------------------------


def test_a_new_file_is_made_of_bytes_and_of_spans_of_another(path: Path) -> None:
    with path.open("rb") as source:
        target = path.with_name("copy")
        write_file(target, [b"head\n", Span(source.fileno(), 4, 4), Span(source.fileno(), 0, 4), b"end\n"])
    assert target.read_bytes() == b"head\ntwo\none\nend\n"
    assert sorted(os.listdir(path.parent)) == ["copy", "s.jsonl"]


def test_a_copy_without_help_from_the_kernel_is_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    with path.open("rb") as source:
        write_file(path.with_name("copy"), [Span(source.fileno(), 0, 8)])
    assert path.with_name("copy").read_bytes() == b"one\ntwo\n"


def test_a_new_file_that_fails_leaves_nothing_behind(path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_file(path.with_name("copy"), parts())
    with path.open("rb") as source, pytest.raises(OSError, match="the source ends at byte 8"):
        write_file(path.with_name("copy"), [Span(source.fileno(), 0, 9)])
    with pytest.raises(FileExistsError):
        write_file(path, [b"x"])
    assert (os.listdir(path.parent), path.read_bytes()) == (["s.jsonl"], b"one\ntwo\n")


def test_memory_gives_the_places_a_file_would(log: JsonlLog) -> None:
    lines_of(log)
    memory = MemoryLog()
    memory.append([b"one\n", b"two\n"])
    assert memory.append([b"three\n"]) == log.append([b"three\n"])
    places = [(8, 5), (0, 3), (5, 2)]
    assert memory.read(places) == log.read(places) == [b"three", b"one", b"wo"]
    assert (memory.content(), list(memory.read_tail())) == (b"one\ntwo\nthree\n", [])
